import { Injectable } from '@nestjs/common';

/** The real time, for things that really expire. */
@Injectable()
export class SystemClock {
  now(): Date {
    return new Date();
  }
}

/**
 * Today, at the order desk: a day that stands still, so that "the last 12 months" hold the same
 * orders today and next year.
 */
export const TODAY = new Date('2026-11-16T09:00:00Z');

const DAY_MS = 86_400_000;

/** A day as text, e.g. `2026-11-16`; such texts compare like the days they name. */
export type CalendarDay = string;

export function calendarDay(instant: Date): CalendarDay {
  return instant.toISOString().slice(0, 10);
}

export function daysBefore(instant: Date, days: number): CalendarDay {
  return calendarDay(new Date(instant.getTime() - days * DAY_MS));
}

/** The day a number of months earlier; a day that month does not have becomes its last one. */
export function monthsBefore(instant: Date, months: number): CalendarDay {
  const first = new Date(Date.UTC(instant.getUTCFullYear(), instant.getUTCMonth() - months, 1));
  const lastDay = new Date(
    Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1, 0),
  ).getUTCDate();
  first.setUTCDate(Math.min(instant.getUTCDate(), lastDay));
  return calendarDay(first);
}
