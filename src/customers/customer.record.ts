import type { Row } from '../desk/tenant-table.js';
import type { Currency } from '../money/currency.js';
import type { CalendarDay } from '../time/calendar-day.js';

/** A customer as it is stored. */
export interface CustomerRecord extends Row {
  readonly name: string;
  readonly email: string;
  readonly city: string;
  readonly since: CalendarDay;
  /** What the customer pays in. */
  readonly currency: Currency;
}
