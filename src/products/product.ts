import { Expose, Type } from 'class-transformer';
import { Money } from '../money/money.js';
import type { ProductRecord } from './product.record.js';

/** An article of the catalog. It has no tools of its own: it is only what tools return. */
export class Product {
  @Expose() readonly id: string;
  @Expose() readonly name: string;
  @Expose() @Type(() => Money) readonly price: Money;
  @Expose() readonly inStock: number;

  constructor(record: ProductRecord) {
    this.id = record.id;
    this.name = record.name;
    this.price = new Money(record.priceCents, record.currency);
    this.inStock = record.inStock;
  }
}
