import { ToolError } from '@toolloop/core';
import type { CalendarDay } from './clock.js';
import { Money, type Currency } from './money.js';
import type { Row } from './tenant-table.js';

/** A customer as it is stored. */
export interface CustomerRecord extends Row {
  readonly name: string;
  readonly email: string;
  readonly city: string;
  readonly since: CalendarDay;
  /** The currency in which the customer pays. */
  readonly currency: Currency;
}

/** An article as it is stored. */
export interface ProductRecord extends Row {
  readonly name: string;
  readonly priceCents: number;
  readonly currency: Currency;
  readonly inStock: number;
}

/** A quantity of an article. */
export interface ProductQuantity {
  readonly productId: string;
  readonly quantity: number;
}

export enum OrderStatus {
  Placed = 'placed',
  Shipped = 'shipped',
  Cancelled = 'cancelled',
}

/** A line of an order, at the price of its day; later changes of the catalog do not reach it. */
export interface OrderLineRecord extends ProductQuantity {
  readonly name: string;
  readonly unitCents: number;
}

/** An order that has not been placed. */
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

/** A cart as it is stored. */
export interface CartRecord extends Row {
  readonly customerId: string;
  readonly items: readonly ProductQuantity[];
  readonly status: 'open' | 'checked_out';
}

/** Most pieces of one article in a cart. */
export const MOST_PIECES = 99;

type Items = readonly ProductQuantity[];

/** Items with more of a product; quantities of the same one add up. */
export function withItem(items: Items, product: ProductRecord, quantity: number): Items {
  const total = quantityOf(items, product.id) + quantity;
  if (total > MOST_PIECES) throw new ToolError(`A cart holds at most ${MOST_PIECES} pieces of one product.`);
  if (total > product.inStock) throw new ToolError(`Only ${product.inStock} of ${product.id} (${product.name}) are in stock.`);
  return [...items.filter(({ productId }) => productId !== product.id), { productId: product.id, quantity: total }];
}

export function withoutItem(items: Items, productId: string): Items {
  if (quantityOf(items, productId) === 0) throw new ToolError(`There is no ${productId} in this cart.`);
  return items.filter((item) => item.productId !== productId);
}

/** The cart, if it may still be changed. */
export function stillOpen(cart: CartRecord): CartRecord {
  if (cart.status !== 'open') throw new ToolError('This cart has been checked out. Open a new one.');
  return cart;
}

function quantityOf(items: Items, id: string): number {
  return items.find(({ productId }) => productId === id)?.quantity ?? 0;
}
