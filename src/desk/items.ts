import { ToolError } from '@toolloop/core';
import { Expose, Type } from 'class-transformer';
import { Money, type Currency } from './money.js';

/** A quantity of an article. */
export interface ProductQuantity {
  readonly productId: string;
  readonly quantity: number;
}

/** A line of an order, at the price of its day; later changes of the catalog do not reach it. */
export interface PricedQuantity extends ProductQuantity {
  readonly name: string;
  readonly unitCents: number;
}

/** An article that is sold. */
export interface StockedProduct {
  readonly id: string;
  readonly name: string;
  readonly inStock: number;
}

export function totalOf(lines: readonly PricedQuantity[], currency: Currency): Money {
  return Money.sum(
    lines.map((line) => new Money(line.unitCents, currency).times(line.quantity)),
    currency,
  );
}

/** One article of an order or a cart. */
export class OrderLine {
  @Expose() readonly productId: string;
  @Expose() readonly name: string;
  @Expose() readonly quantity: number;
  @Expose() @Type(() => Money) readonly unitPrice: Money;

  constructor(line: PricedQuantity, currency: Currency) {
    this.productId = line.productId;
    this.name = line.name;
    this.quantity = line.quantity;
    this.unitPrice = new Money(line.unitCents, currency);
  }
}

/** The contents of a cart, at today's prices. */
export class CartContents {
  @Expose() readonly cartId: string;
  @Expose() @Type(() => OrderLine) readonly lines: readonly OrderLine[];
  @Expose() @Type(() => Money) readonly total: Money;

  constructor(cartId: string, lines: readonly PricedQuantity[], currency: Currency) {
    this.cartId = cartId;
    this.lines = lines.map((line) => new OrderLine(line, currency));
    this.total = totalOf(lines, currency);
  }
}

/** Most pieces of one article in a cart. */
export const MOST_PIECES = 99;

type Items = readonly ProductQuantity[];

/** Items with more of a product; quantities of the same one add up. */
export function withItem(items: Items, product: StockedProduct, quantity: number): Items {
  const total = quantityOf(items, product.id) + quantity;
  if (total > MOST_PIECES)
    throw new ToolError(`A cart holds at most ${MOST_PIECES} pieces of one product.`);
  assertInStock(product, total);
  return [
    ...items.filter(({ productId }) => productId !== product.id),
    { productId: product.id, quantity: total },
  ];
}

export function withoutItem(items: Items, productId: string): Items {
  if (quantityOf(items, productId) === 0)
    throw new ToolError(`There is no ${productId} in this cart.`);
  return items.filter((item) => item.productId !== productId);
}

/** @throws {ToolError} Where there are fewer. */
export function assertInStock({ id, name, inStock }: StockedProduct, quantity: number): void {
  if (inStock < quantity) throw new ToolError(`Only ${inStock} of ${id} (${name}) are in stock.`);
}

function quantityOf(items: Items, id: string): number {
  return items.find(({ productId }) => productId === id)?.quantity ?? 0;
}
