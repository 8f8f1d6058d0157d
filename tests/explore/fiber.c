/* SPDX-License-Identifier: MIT */
#include "explore/fiber.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif

/*
 * Saves what a function must preserve on the stack, leaves the stack pointer in *from and goes on with the
 * stack at `to`. The first time, that stack is the frame fiber_start has made, and `ret` enters fiber_begin.
 */
void fiber_swap(void **from, void *to);
void fiber_begin(void);

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl fiber_swap\n"
        ".type fiber_swap, @function\n"
        "fiber_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size fiber_swap, .-fiber_swap\n");
enum { FRAME = 8, RETURN = 6 }; /* words; a function begins 8 bytes off a multiple of 16 */
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl fiber_swap\n"
        ".type fiber_swap, %function\n"
        "fiber_swap:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size fiber_swap, .-fiber_swap\n");
enum { FRAME = 20, RETURN = 11 };
#else
#error "fiber.c knows x86-64 and aarch64"
#endif

enum { STACK = 128 * 1024 };

struct fiber {
    _Alignas(16) unsigned char stack[STACK];
    void *pointer;
    void (*run)(void);
    void *shadow; /* of the address sanitizer */
};

static struct fiber fibers[FIBERS];
static struct fiber *running;
static void *resumer; /* stack pointer of whoever resumed the running one */

#ifdef FIBER_ASAN
/* As the sanitizer's own headers have them. */
void __asan_unpoison_memory_region(const volatile void *memory, size_t size);
void __sanitizer_start_switch_fiber(void **shadow_saved, const void *stack, size_t size);
void __sanitizer_finish_switch_fiber(void *shadow, const void **stack_left, size_t *size_left);

/* Abandoned fibers would never hand back the stacks that this would make for them. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_stack_use_after_return=0";
}

static const void *resumer_stack;
static size_t resumer_size;

static void shadow_leave(void **shadow, const void *stack, size_t size)
{
    __sanitizer_start_switch_fiber(shadow, stack, size);
}

static void shadow_arrive(void *shadow, const void **stack, size_t *size)
{
    __sanitizer_finish_switch_fiber(shadow, stack, size);
}

static void shadow_clear(struct fiber *fiber)
{
    __asan_unpoison_memory_region(fiber->stack, STACK);
    fiber->shadow = NULL;
}
#else
#define shadow_leave(SHADOW, STACK, SIZE)  ((void)0)
#define shadow_arrive(SHADOW, STACK, SIZE) ((void)0)
#define shadow_clear(FIBER)                ((void)0)
#endif

void fiber_begin(void)
{
    shadow_arrive(NULL, &resumer_stack, &resumer_size);
    running->run();
    __builtin_trap(); /* `run` has not yielded at its end */
}

void fiber_start(int index, void (*run)(void))
{
    struct fiber *fiber = &fibers[index];
    shadow_clear(fiber);
    void **frame = (void **)(void *)(fiber->stack + STACK) - FRAME;
    for (int i = 0; i < FRAME; i++)
        frame[i] = NULL;
    frame[RETURN] = (void *)(uintptr_t)fiber_begin;
    fiber->pointer = frame;
    fiber->run = run;
}

void fiber_resume(int index)
{
    running = &fibers[index];
#ifdef FIBER_ASAN
    void *shadow = NULL;
#endif
    shadow_leave(&shadow, running->stack, STACK);
    fiber_swap(&resumer, running->pointer);
    shadow_arrive(shadow, NULL, NULL);
}

void fiber_yield(void)
{
    struct fiber *fiber = running;
    shadow_leave(&fiber->shadow, resumer_stack, resumer_size);
    fiber_swap(&fiber->pointer, resumer);
    shadow_arrive(fiber->shadow, &resumer_stack, &resumer_size);
}
