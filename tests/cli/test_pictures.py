#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weir spec --chart and --plot: the curve of warmup, and tokens over time."""

import os
import tempfile
import xml.etree.ElementTree as ElementTree

import command

SVG = "{http://www.w3.org/2000/svg}"

# 20 are there; half of them go at once; twice the rate takes the other half and is then refused every second time;
# 20 units come back in 200 ms.
TOKENS = """\
  units left against time: a rest, a burst, twice the rate, a rest
     20 ┤⠉⠉⠉⠉⠉⡇                                                        ⡤⠼⠉⠉⠉⠉⠉
        │     ⡇                                                     ⢠⠼⠉⠁
     15 ┤     ⡇                                                   ⡤⠏⠉
        │     ⡇                                                ⢠⠼⠉⠁
     10 ┤     ⣇⣀                                           ⢀⣠⠤⠏⠉
        │      ⠛⣆⣆⡀                                      ⣀⡖⠚
        │        ⠘⢳⣰⣀                                 ⣀⣰⠒⠃
      5 ┤           ⠛⢲⣆⡀                           ⢀⣀⡖⠃
        │             ⠘⠓⣶⡀⡀                      ⣀⣰⠚
      0 ┤                ⠓⢳⣆⣰⣰⣀⣆⣰⣰⣀⣆⣆⣰⣰⣀⣆⣰⣰⣀⣆⣆⣰⣀⡖⠃
        └┬────────────┬────────────┬────────────┬───────────┬────────────┬────
refused                    × ××× ××× ×××× ××× ×
         0         100 ms       200 ms       300 ms      400 ms       500 ms
"""

CURVE = """\
  price of a unit against units saved: how long taking one unit delays the next
  cold 3 s +.................................:.............................--'
           |                                 :                      ..--''   :
           |                                 :                 ..--''        :
           |                                 :            ..--''             :
           |                                 :       ..--''                  :
           |                                 :  ..--''                       :
stable 1 s +-----------------------------------''............................:
           |                                 :                               :
           |                                 :                               :
         0 +                                 :                               :
           ++--------------------------------+-------------------------------+
            0                          threshold 2.5                      full 5
"""


class Chart(command.CommandTest):
    WARMUP = "1/s algo=warmup warmup=5s"

    def test_curve_of_warmup(self):
        words = self.output("spec", self.WARMUP, LC_ALL="C")
        chart = self.output("spec", "--chart", self.WARMUP, LC_ALL="C")
        self.assertTrue(chart.startswith(words + "\n" + CURVE + "\n  units saved against time: "), chart)

    def test_saved_units_are_told_from_remaining_ones(self):
        for text in self.WARMUP, "5/s algo=smooth":
            self.assertIn("\n  units saved against time: a rest, a burst, twice the rate, a rest; who has to\n"
                          "  wait finds remaining 0, but what is saved stays\n", self.output("spec", "--chart", text))

    def test_below(self):
        chart = self.output("spec", "--chart", self.WARMUP + " shape=below", LC_ALL="C").split("\n\n")[1]
        rows = chart.splitlines()
        self.assertTrue(rows[1].startswith("     stable 1 s +'''"), chart)
        self.assertTrue(rows[7].startswith("rested 333.3 ms +..."), chart)
        self.assertTrue(rows[-1].split() == ["0", "threshold", "2.5", "full", "10"], chart)

    def test_tokens_over_time(self):
        self.check(["spec", "--chart", "100/s burst=20"], self.output("spec", "100/s burst=20") + "\n" + TOKENS)

    def test_only_ascii_where_the_locale_is_not_utf8(self):
        for text in "100/s burst=20", self.WARMUP, "12000,1.1", "10/s algo=leaky-bucket":
            self.assertTrue(self.output("spec", "--chart", text, LC_ALL="C").isascii())
            self.assertFalse(self.output("spec", "--chart", text).isascii())

    def test_fits_the_terminal(self):
        for width in 40, 80, 200:
            lines = self.output("spec", "--chart", "100/s burst=20", COLUMNS=str(width)).splitlines()
            self.assertLessEqual(max(map(len, lines[8:])), width)

    def test_refusals_are_marked_while_nothing_is_left(self):
        lines = self.output("spec", "--chart", "100/s burst=20", LC_ALL="C").splitlines()
        refused = next(line for line in lines if line.startswith("refused"))
        empty = next(line for line in lines if line.startswith("      0 +"))
        self.assertEqual(set(refused[8:]), {" ", "x"})
        self.assertTrue(all(empty[i] != " " for i, letter in enumerate(refused) if i > 8 and letter == "x"))

    def test_nothing_to_draw(self):
        self.assertEqual(self.output("spec", "--chart", "unlimited"), self.output("spec", "unlimited"))


class Plot(command.CommandTest):
    def plot(self, *limits):
        return ElementTree.fromstring(self.output("spec", "--plot", "-", *limits).encode())

    def texts(self, element):
        return [text.text for text in element.iter(SVG + "text")]

    def points(self, element):
        line = element.find(SVG + "polyline").get("points").split()
        return [tuple(map(float, point.split(","))) for point in line]

    def test_curve_of_warmup(self):
        curve, time = self.plot("1/s algo=warmup warmup=5s").iter(SVG + "g")
        for text in "threshold 2.5", "full 5", "stable 1 s", "cold 3 s", "warmup 5 s", "units saved", "price of a unit":
            self.assertIn(text, self.texts(curve))
        self.assertIn("time", self.texts(time))
        self.assertEqual(self.texts(curve)[1], "how long taking one unit delays the next")

        # Flat at a third of the height up to half of the width, then up into the corner.
        (x0, y0), (x1, y1), (x2, y2) = self.points(curve)
        bottom = max(float(line.get("y1")) for line in curve.iter(SVG + "line") if line.get("class") == "axis")
        self.assertEqual(y0, y1)
        self.assertAlmostEqual((x1 - x0) / (x2 - x0), 0.5, places=2)
        self.assertAlmostEqual((bottom - y0) / (bottom - y2), 1 / 3, places=2)

    def test_below(self):
        curve = next(self.plot("1/s algo=warmup warmup=5s shape=below").iter(SVG + "g"))
        for text in "threshold 2.5", "full 10", "stable 1 s", "rested 333.3 ms":
            self.assertIn(text, self.texts(curve))
        (_, y0), _, (_, y2) = self.points(curve)
        self.assertLess(y0, y2)

    def test_tokens_over_time(self):
        figure = next(self.plot("100/s burst=20").iter(SVG + "g"))
        for text in "100/s burst=20", "units left", "time", "0", "20", "100 ms", "| refused":
            self.assertIn(text, self.texts(figure))
        points = self.points(figure)
        self.assertEqual(points, sorted(points, key=lambda point: point[0]))
        top, bottom = min(y for _, y in points), max(y for _, y in points)
        self.assertEqual(points[0][1], top)
        self.assertEqual(points[-1][1], top)
        burst = next(x for x, y in points if y > top)
        left = max(y for x, y in points if x == burst)
        self.assertAlmostEqual((bottom - left) / (bottom - top), 10 / 20, places=2)

    def test_everything_is_inside_the_picture(self):
        for text in "2GiB/s", "1/3650d", "50/500ns", "12000,1.1", "10k/h algo=sliding-log", "7/3h algo=smooth":
            picture = self.plot(text)
            _, _, width, height = map(float, picture.get("viewBox").split())
            for figure in picture.iter(SVG + "g"):
                for x, y in self.points(figure):
                    self.assertTrue(0 <= x <= width and 0 <= y <= height, text)

    def test_every_limit_has_its_picture(self):
        picture = self.plot("100/s burst=20, 5/m", "1/s algo=warmup warmup=5s", "blocked")
        self.assertEqual([self.texts(figure)[0] for figure in picture.iter(SVG + "g")],
                         ["100/s burst=20", "5/m", "1/s algo=warmup warmup=5s", "1/s algo=warmup warmup=5s"])

    def test_names_are_escaped(self):
        self.assertIn("5/s name=a&b<c>", self.texts(self.plot("5/s name=a&b<c>")))

    def test_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.svg")
            self.assertEqual(self.output("spec", "--plot", path, "5/m"), self.output("spec", "5/m"))
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), self.output("spec", "--plot=-", "5/m"))

    def test_mistakes(self):
        self.check(["spec", "--plot", "/nowhere/a.svg", "5/m"], "",
                   "weir spec: cannot write /nowhere/a.svg: No such file or directory\n", status=2)
        self.check(["spec", "--plot", "/dev/full", "5/m"], "",
                   "weir spec: cannot write /dev/full: No space left on device\n", status=2)
        self.check(["spec", "--plot", "-", "blocked"], "",
                   "weir spec: there is nothing to draw: what always or never passes has no picture\n", status=2)


if __name__ == "__main__":
    command.main()
