/** Intervals in each IntervalStyle of PostgreSQL, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { intervalFromText } from '../../../src/db/postgres/intervals.ts';

for (const [text, iso] of [
  // iso_8601
  ['P1DT2H', 'P1DT2H'],
  // postgres
  ['00:00:00', 'PT0S'],
  ['1 day 02:00:00', 'P1DT2H'],
  ['1 year 2 mons 3 days 04:05:06', 'P1Y2M3DT4H5M6S'],
  ['1 year -2 mons +3 days -04:05:06.5', 'P1Y-2M3DT-4H-5M-6.5S'],
  ['10 years', 'P10Y'],
  ['1 mon', 'P1M'],
  ['-1 days', 'P-1D'],
  ['04:05', 'PT4H5M'],
  ['-00:00:00.000100', 'PT-0.0001S'],
  ['100:00:00', 'PT100H'],
  ['00:10:20', 'PT10M20S'],
  // postgres_verbose
  ['@ 0', 'PT0S'],
  ['@ 1 year 2 mons 3 days 4 hours 5 mins 6.5 secs', 'P1Y2M3DT4H5M6.5S'],
  ['@ 1 year 2 mons 3 days 4 hours 5 mins 6.5 secs ago', 'P-1Y-2M-3DT-4H-5M-6.5S'],
  ['@ 1 hour', 'PT1H'],
  ['@ 0 secs', 'PT0S'],
  ['0 days', 'PT0S'],
  ['@ 1 min', 'PT1M'],
  ['@ 1 sec', 'PT1S'],
  ['@ 1 day -2 hours ago', 'P-1DT2H'],
  // sql_standard
  ['0', 'PT0S'],
  ['1-2', 'P1Y2M'],
  ['+1-2', 'P1Y2M'],
  ['-1-2', 'P-1Y-2M'],
  ['0-11', 'P11M'],
  ['3', 'P3D'],
  ['1-2 3 4:05:06', 'P1Y2M3DT4H5M6S'],
  ['-1-2 3 4:05:06', 'P-1Y-2M-3DT-4H-5M-6S'],
  ['-3 4:05:06', 'P-3DT-4H-5M-6S'],
  ['3 4:05:06', 'P3DT4H5M6S'],
  ['3 -4:05:06', 'P3DT-4H-5M-6S'],
  ['-4:05:06.70', 'PT-4H-5M-6.7S'],
  ['+1-2 -3 +4:05:06', 'P1Y2M-3DT4H5M6S'],
  ['-1-2 +3 -4:05:06', 'P-1Y-2M3DT-4H-5M-6S'],
  // other texts
  ['', ''],
  ['no interval', 'no interval'],
  ['infinity', 'infinity'],
  ['1 fortnight', '1 fortnight'],
  ['1 year 2', '1 year 2'],
  ['1 year 0', '1 year 0'],
  ['x days', 'x days'],
  ['1-2 3 ?', '1-2 3 ?'],
  ['1.5 3', '1.5 3'],
  ['@ one day', '@ one day'],
] as const)
  test(`intervalFromText() returns "${iso}" for the text "${text}"`, () =>
    assert.equal(intervalFromText(text), iso));
