/* SPDX-License-Identifier: MIT */
/*
 * C++17 with the plain header: a unique_ptr owns the limiter, a wrong text becomes an exception, and times
 * are those of <chrono>.
 */
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <weir.h>

namespace
{

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

struct limiter_free {
    void operator()(weir_limiter *limiter) const
    {
        weir_limiter_free(limiter);
    }
};
using limiter_ptr = std::unique_ptr<weir_limiter, limiter_free>;

limiter_ptr make_limiter(const std::string &limits)
{
    weir_error err{};
    limiter_ptr limiter{weir_limiter_new(limits.c_str(), &err)};
    if (!limiter)
        throw std::invalid_argument{err.text};
    return limiter;
}

bool acquire(const limiter_ptr &limiter, nanoseconds timeout, weir_verdict &verdict)
{
    return weir_limiter_acquire(limiter.get(), 1, timeout.count(), &verdict);
}

} // namespace

int main()
{
    const limiter_ptr api = make_limiter("1/h burst=100");
    std::atomic<int> passed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            while (weir_limiter_take(api.get(), 1, nullptr))
                passed++;
        });
    for (std::thread &thread : threads)
        thread.join();
    std::cout << passed << " of 100 passed\n";

    weir_verdict verdict{};
    if (!acquire(api, 250ms, verdict)) { /* says so at once */
        const auto wait =
            std::chrono::duration_cast<std::chrono::minutes>(nanoseconds{verdict.retry_after_ns});
        std::cout << "no place within 250 ms; the next in more than " << wait.count() << " minutes\n";
    }

    try {
        make_limiter("5/m brust=10");
    } catch (const std::invalid_argument &error) {
        std::cout << error.what() << '\n';
    }
}
