import { Injectable } from '@nestjs/common';
import { ToolError } from '@toolloop/core';
import { calendarDay, Clock, daysBefore, type CalendarDay } from './clock.js';
import type { Money } from './money.js';
import {
  OrderStatus,
  totalOf,
  type CartRecord,
  type CustomerRecord,
  type OrderDraft,
  type OrderRecord,
  type ProductQuantity,
  type ProductRecord,
} from './records.js';
import { CUSTOMERS, ORDERS, PRODUCTS, type OrderSeed } from './seed.js';
import { matchesWords, TenantTable } from './tenant-table.js';

@Injectable()
export class CustomersRepository {
  private readonly table = new TenantTable<CustomerRecord>(CUSTOMERS);

  find(tenant: string, id: string): Promise<CustomerRecord | undefined> {
    return this.table.find(tenant, id);
  }

  async search(tenant: string, name: string, limit: number): Promise<CustomerRecord[]> {
    const customers = await this.table.list(tenant);
    return customers.filter((customer) => matchesWords(customer.name, name)).slice(0, limit);
  }
}

/** A search in a catalog. */
export interface ProductQuery {
  readonly text?: string;
  readonly maxPriceCents?: number;
  readonly inStockOnly: boolean;
  readonly limit: number;
}

@Injectable()
export class ProductsRepository {
  private readonly table = new TenantTable<ProductRecord>(PRODUCTS);

  async search(tenant: string, query: ProductQuery): Promise<ProductRecord[]> {
    const products = await this.table.list(tenant);
    return products.filter((product) => isWantedProduct(product, query)).slice(0, query.limit);
  }

  async get(tenant: string, id: string): Promise<ProductRecord> {
    return required(await this.table.find(tenant, id), id);
  }

  setPrice(tenant: string, id: string, price: Money): Promise<ProductRecord> {
    return this.table.transaction(tenant, (rows) => {
      const product = required(rows.get(id), id);
      if (product.currency !== price.currency) throw new ToolError(`Prices of this catalog are in ${product.currency}.`);
      const repriced = { ...product, priceCents: price.cents };
      rows.set(id, repriced);
      return repriced;
    });
  }

  /** Takes everything out of stock, or nothing. */
  take(tenant: string, quantities: readonly ProductQuantity[]): Promise<void> {
    return this.table.transaction(tenant, (rows) => {
      for (const { productId, quantity } of quantities) {
        const product = required(rows.get(productId), productId);
        if (product.inStock < quantity) throw new ToolError(`Only ${product.inStock} of ${productId} (${product.name}) are in stock.`);
        rows.set(productId, { ...product, inStock: product.inStock - quantity });
      }
    });
  }

  putBack(tenant: string, quantities: readonly ProductQuantity[]): Promise<void> {
    return this.table.transaction(tenant, (rows) => {
      for (const { productId, quantity } of quantities) {
        const product = required(rows.get(productId), productId);
        rows.set(productId, { ...product, inStock: product.inStock + quantity });
      }
    });
  }
}

function isWantedProduct(product: ProductRecord, query: ProductQuery): boolean {
  if (query.inStockOnly && product.inStock === 0) return false;
  if (query.maxPriceCents !== undefined && product.priceCents > query.maxPriceCents) return false;
  return query.text === undefined || matchesWords(product.name, query.text);
}

function required(product: ProductRecord | undefined, id: string): ProductRecord {
  if (!product) throw new ToolError(`No product has the id "${id}". Find one with catalog__searchProducts.`);
  return product;
}

/** A selection of orders. */
export interface OrderQuery {
  readonly status?: OrderStatus;
  readonly from?: CalendarDay;
  readonly to?: CalendarDay;
}

@Injectable()
export class OrdersRepository {
  private readonly table: TenantTable<OrderRecord>;

  constructor(private readonly clock: Clock) {
    const now = clock.now();
    const seeded = Object.entries(ORDERS).map(([tenant, orders]) => [tenant, orders.map((seed) => fromSeed(seed, now))] as const);
    this.table = new TenantTable<OrderRecord>(Object.fromEntries(seeded));
  }

  find(tenant: string, id: string): Promise<OrderRecord | undefined> {
    return this.table.find(tenant, id);
  }

  async get(tenant: string, id: string): Promise<OrderRecord> {
    const order = await this.find(tenant, id);
    if (!order) throw new ToolError(`No order has the number "${id}". List the orders with orders__listOrders.`);
    return order;
  }

  /** The newest first. */
  async list(tenant: string, query: OrderQuery): Promise<OrderRecord[]> {
    const orders = await this.table.list(tenant);
    return orders.filter((order) => isWantedOrder(order, query)).toSorted(newestFirst);
  }

  async recentOf(tenant: string, customerId: string, limit: number): Promise<OrderRecord[]> {
    const orders = await this.list(tenant, {});
    return orders.filter((order) => order.customerId === customerId).slice(0, limit);
  }

  /** The total of every order of a customer since a day, cancelled ones left out. */
  async spentSince(tenant: string, customerId: string, since: CalendarDay): Promise<Money[]> {
    const orders = await this.list(tenant, { from: since });
    return orders.filter((order) => order.customerId === customerId && order.status !== OrderStatus.Cancelled).map(totalOf);
  }

  place(tenant: string, draft: OrderDraft): Promise<OrderRecord> {
    return this.table.transaction(tenant, (rows) => {
      const numbers = [...rows.keys()].map((id) => Number(id.slice(2)));
      const id = `o-${Math.max(1000, ...numbers) + 1}`;
      const placed = { ...draft, id, status: OrderStatus.Placed, placedOn: calendarDay(this.clock.now()) };
      rows.set(id, placed);
      return placed;
    });
  }

  /** Replaces an order by what `change` makes of it, in one step; undefined when there is none. */
  change(tenant: string, id: string, change: (order: OrderRecord) => OrderRecord): Promise<OrderRecord | undefined> {
    return this.table.transaction(tenant, (rows) => {
      const order = rows.get(id);
      if (!order) return undefined;
      const changed = change(order);
      rows.set(id, changed);
      return changed;
    });
  }
}

function fromSeed({ daysAgo, ...order }: OrderSeed, now: Date): OrderRecord {
  return { ...order, placedOn: daysBefore(now, daysAgo) };
}

function isWantedOrder(order: OrderRecord, { status, from, to }: OrderQuery): boolean {
  if (status !== undefined && order.status !== status) return false;
  return (from === undefined || order.placedOn >= from) && (to === undefined || order.placedOn <= to);
}

function newestFirst(one: OrderRecord, other: OrderRecord): number {
  return other.placedOn.localeCompare(one.placedOn) || other.id.localeCompare(one.id);
}

@Injectable()
export class CartsRepository {
  private readonly table = new TenantTable<CartRecord>();

  open(tenant: string, customerId: string, items: readonly ProductQuantity[] = []): Promise<CartRecord> {
    return this.table.transaction(tenant, (rows) => {
      const cart: CartRecord = { id: `cart-${rows.size + 1}`, customerId, items, status: 'open' };
      rows.set(cart.id, cart);
      return cart;
    });
  }

  /** Replaces a cart by what `change` makes of it, in one step. */
  change(tenant: string, id: string, change: (cart: CartRecord) => CartRecord): Promise<CartRecord> {
    return this.table.transaction(tenant, (rows) => {
      const cart = rows.get(id);
      if (!cart) throw new Error(`There is no cart ${id}.`);
      const changed = change(cart);
      rows.set(id, changed);
      return changed;
    });
  }
}
