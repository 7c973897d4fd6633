import { ToolError } from '@toolloop/core';
import type { ProductQuantity, ProductRecord } from '../products/product.record.js';
import type { CartRecord } from './cart.record.js';

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
