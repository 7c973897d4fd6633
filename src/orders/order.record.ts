import type { Row } from '../desk/tenant-table.js';
import type { Currency } from '../money/currency.js';
import { Money } from '../money/money.js';
import type { ProductQuantity } from '../products/product.record.js';
import type { CalendarDay } from '../time/calendar-day.js';
import type { OrderStatus } from './order-status.js';

/** What was ordered at which price; later changes of the catalog do not reach it. */
export interface OrderLineRecord extends ProductQuantity {
  readonly name: string;
  readonly unitCents: number;
}

/** What a customer orders. */
export interface OrderDraft {
  readonly customerId: string;
  readonly currency: Currency;
  readonly lines: readonly OrderLineRecord[];
}

/** An order as it is stored. */
export interface OrderRecord extends OrderDraft, Row {
  readonly status: OrderStatus;
  readonly placedOn: CalendarDay;
}

export function totalOf({ lines, currency }: OrderDraft): Money {
  return Money.sum(
    lines.map((line) => new Money(line.unitCents, currency).times(line.quantity)),
    currency,
  );
}
