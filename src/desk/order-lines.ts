import { Expose, Type } from 'class-transformer';
import { Money, type Currency } from './money.js';
import { totalOf, type OrderDraft, type OrderLineRecord } from './records.js';

/** One article of an order or a cart. */
export class OrderLine {
  @Expose() readonly productId: string;
  @Expose() readonly name: string;
  @Expose() readonly quantity: number;
  @Expose() @Type(() => Money) readonly unitPrice: Money;

  constructor(record: OrderLineRecord, currency: Currency) {
    this.productId = record.productId;
    this.name = record.name;
    this.quantity = record.quantity;
    this.unitPrice = new Money(record.unitCents, currency);
  }
}

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
