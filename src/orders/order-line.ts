import { Expose, Type } from 'class-transformer';
import type { Currency } from '../money/currency.js';
import { Money } from '../money/money.js';
import type { OrderLineRecord } from './order.record.js';

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
