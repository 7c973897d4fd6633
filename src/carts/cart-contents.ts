import { Expose, Type } from 'class-transformer';
import { Money } from '../money/money.js';
import { OrderLine } from '../orders/order-line.js';
import { totalOf, type OrderDraft } from '../orders/order.record.js';

/** What lies in a cart, at today's prices. */
export class CartContents {
  @Expose() readonly cartId: string;
  @Expose() @Type(() => OrderLine) readonly lines: readonly OrderLine[];
  @Expose() @Type(() => Money) readonly total: Money;

  constructor(cartId: string, draft: OrderDraft) {
    this.cartId = cartId;
    this.lines = draft.lines.map((line) => new OrderLine(line, draft.currency));
    this.total = totalOf(draft);
  }
}
