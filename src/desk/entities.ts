import { Injectable } from '@nestjs/common';
import { LlmTool, ToolError, ToolParam, ToolProvider } from '@toolloop/core';
import { Expose, Type } from 'class-transformer';
import { Clock, monthsBefore } from './clock.js';
import { Money, type Currency } from './money.js';
import {
  MOST_PIECES,
  OrderStatus,
  stillOpen,
  totalOf,
  withItem,
  withoutItem,
  type CartRecord,
  type CustomerRecord,
  type OrderDraft,
  type OrderLineRecord,
  type OrderRecord,
} from './records.js';
import { CartsRepository, CustomersRepository, OrdersRepository, ProductsRepository } from './repositories.js';

// The factory and the entities name each other, so they share a file. An entity that is declared further down is named in `output` by a function, and its
// method returns a Promise of it: the compiler writes a plain return type into the metadata, where it would be read while this file still loads.

/** Makes entities of stored records and hands them what they work with. Entities are no Nest providers: each belongs to one row of one tenant. */
@Injectable()
export class EntityFactory {
  constructor(
    readonly customers: CustomersRepository,
    readonly products: ProductsRepository,
    readonly orders: OrdersRepository,
    readonly carts: CartsRepository,
    readonly clock: Clock,
  ) {}

  customer(tenant: string, record: CustomerRecord): Customer {
    return new Customer(tenant, record, this);
  }

  order(tenant: string, record: OrderRecord): Order {
    return new Order(tenant, record, this);
  }

  cart(tenant: string, record: CartRecord): Cart {
    return new Cart(tenant, record, this);
  }

  /** Drafts the order of a cart, at today's prices. */
  async draft(tenant: string, cart: CartRecord): Promise<OrderDraft> {
    const customer = await this.customers.find(tenant, cart.customerId);
    if (!customer) throw new Error(`The customer of ${cart.id} is gone.`);
    const lines = cart.items.map(async ({ productId, quantity }) => {
      const product = await this.products.get(tenant, productId);
      return { productId, quantity, name: product.name, unitCents: product.priceCents };
    });
    return { customerId: customer.id, currency: customer.currency, lines: await Promise.all(lines) };
  }
}

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

/** The contents of a cart, at today's prices. */
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

const MONTHS = 12;

/** A customer. Its tools appear when a tool returns it. */
@ToolProvider({ prefix: 'customer', instanceIdProperty: 'id', tenantProperty: 'tenant' })
export class Customer {
  @Expose() readonly id: string;
  @Expose() readonly name: string;
  /** The model may write to the customer; the browser and the audit need no address. */
  @Expose({ groups: ['model'] }) readonly email: string;
  @Expose() readonly city: string;
  @Expose() readonly customerSince: string;

  constructor(
    private readonly tenant: string,
    private readonly record: CustomerRecord,
    private readonly desk: EntityFactory,
  ) {
    this.id = record.id;
    this.name = record.name;
    this.email = record.email;
    this.city = record.city;
    this.customerSince = record.since;
  }

  @LlmTool({
    description: "This customer's average monthly spend over the last 12 months, without cancelled orders.",
    effect: 'read_only',
    output: Money,
    labels: { returns: 'trusted' },
  })
  async getAverageSpend(): Promise<Money> {
    const since = monthsBefore(this.desk.clock.now(), MONTHS);
    const spent = await this.desk.orders.spentSince(this.tenant, this.id, since);
    return Money.sum(spent, this.record.currency).dividedBy(MONTHS);
  }

  @LlmTool({
    description: "This customer's most recent orders, the newest first.",
    effect: 'read_only',
    output: () => [Order],
    labels: { returns: 'trusted' },
  })
  async getRecentOrders(
    @ToolParam('limit', { description: 'How many at most', default: 5, minimum: 1, maximum: 20 }) limit: number,
  ): Promise<Order[]> {
    const records = await this.desk.orders.recentOf(this.tenant, this.id, limit);
    return records.map((record) => this.desk.order(this.tenant, record));
  }

  @LlmTool({
    description: 'Open a new, empty cart for this customer.',
    effect: 'state_change',
    output: () => Cart,
    labels: { returns: 'trusted' },
  })
  async openCart(): Promise<Cart> {
    return this.desk.cart(this.tenant, await this.desk.carts.open(this.tenant, this.id));
  }
}

/** An order as it was when it was looked up, which its resolver does before each call. Its tools appear when a tool returns it. */
@ToolProvider({ prefix: 'order', instanceIdProperty: 'id', tenantProperty: 'tenant' })
export class Order {
  @Expose() readonly id: string;
  @Expose() readonly customerId: string;
  @Expose() readonly placedOn: string;
  @Expose() readonly status: OrderStatus;

  constructor(
    private readonly tenant: string,
    private readonly record: OrderRecord,
    private readonly desk: EntityFactory,
  ) {
    this.id = record.id;
    this.customerId = record.customerId;
    this.placedOn = record.placedOn;
    this.status = record.status;
  }

  @LlmTool({ description: 'What this order costs in total.', effect: 'read_only', output: Money, labels: { returns: 'trusted' } })
  getTotal(): Money {
    return totalOf(this.record);
  }

  @LlmTool({ description: 'The articles of this order.', effect: 'read_only', output: [OrderLine], labels: { returns: 'trusted' } })
  getLines(): OrderLine[] {
    return this.record.lines.map((line) => new OrderLine(line, this.record.currency));
  }

  @LlmTool({ description: 'The customer who placed this order.', effect: 'read_only', output: Customer })
  async getCustomer(): Promise<Customer> {
    const record = await this.desk.customers.find(this.tenant, this.customerId);
    if (!record) throw new ToolError('The customer of this order is no longer on file.');
    return this.desk.customer(this.tenant, record);
  }

  @LlmTool({
    description: 'Cancel this order and put its articles back in stock. Shipped orders cannot be cancelled.',
    effect: 'state_change',
    output: () => Order,
    labels: { returns: 'trusted' },
  })
  async cancel(): Promise<Order> {
    const cancelled = await this.desk.orders.change(this.tenant, this.id, toCancelled);
    if (!cancelled) throw new ToolError(`Order ${this.id} is no longer on file.`);
    await this.desk.products.putBack(this.tenant, cancelled.lines);
    return this.desk.order(this.tenant, cancelled);
  }
}

/** Decides by the order as it is now, not as it was when the model saw it. */
function toCancelled(order: OrderRecord): OrderRecord {
  if (order.status === OrderStatus.Shipped) {
    throw new ToolError(`Order ${order.id} has been shipped and cannot be cancelled. Offer a return instead.`);
  }
  if (order.status === OrderStatus.Cancelled) throw new ToolError(`Order ${order.id} is cancelled already.`);
  return { ...order, status: OrderStatus.Cancelled };
}

const PRODUCT_ID = { description: 'A product id such as p-102', pattern: String.raw`^p-\d{1,9}$` };

/** A cart. Its items live in the repository, so that every holder of this cart sees the same. */
@ToolProvider({ prefix: 'cart', instanceIdProperty: 'id' })
export class Cart {
  @Expose() readonly id: string;
  @Expose() readonly customerId: string;

  constructor(
    private readonly tenant: string,
    record: CartRecord,
    private readonly desk: EntityFactory,
  ) {
    this.id = record.id;
    this.customerId = record.customerId;
  }

  @LlmTool({ description: 'Put a product into this cart.', effect: 'state_change', output: CartContents, labels: { returns: 'trusted' } })
  async addItem(
    @ToolParam('productId', PRODUCT_ID) productId: string,
    @ToolParam('quantity', { description: 'How many', type: 'integer', default: 1, minimum: 1, maximum: MOST_PIECES }) quantity: number,
  ): Promise<CartContents> {
    const product = await this.desk.products.get(this.tenant, productId);
    return this.contentsOf(await this.changeItems((items) => withItem(items, product, quantity)));
  }

  @LlmTool({
    description: 'Take a product out of this cart.',
    effect: 'state_change',
    output: CartContents,
    labels: { returns: 'trusted' },
  })
  async removeItem(@ToolParam('productId', PRODUCT_ID) productId: string): Promise<CartContents> {
    return this.contentsOf(await this.changeItems((items) => withoutItem(items, productId)));
  }

  @LlmTool({
    description: "What is in this cart, at today's prices.",
    effect: 'read_only',
    output: CartContents,
    labels: { returns: 'trusted' },
  })
  async getContents(): Promise<CartContents> {
    return this.contentsOf(await this.current());
  }

  @LlmTool({
    description: 'Place an order for everything in this cart.',
    effect: 'state_change',
    output: Order,
    labels: { returns: 'trusted' },
  })
  async checkout(): Promise<Order> {
    const cart = await this.desk.carts.change(this.tenant, this.id, toCheckedOut);
    try {
      await this.desk.products.take(this.tenant, cart.items);
    } catch (error) {
      await this.desk.carts.change(this.tenant, this.id, (failed) => ({ ...failed, status: 'open' }));
      throw error;
    }
    return this.desk.order(this.tenant, await this.desk.orders.place(this.tenant, await this.desk.draft(this.tenant, cart)));
  }

  private current(): Promise<CartRecord> {
    return this.desk.carts.change(this.tenant, this.id, (cart) => cart);
  }

  private changeItems(change: (items: CartRecord['items']) => CartRecord['items']): Promise<CartRecord> {
    return this.desk.carts.change(this.tenant, this.id, (cart) => ({ ...stillOpen(cart), items: change(cart.items) }));
  }

  private async contentsOf(cart: CartRecord): Promise<CartContents> {
    return new CartContents(this.id, await this.desk.draft(this.tenant, cart));
  }
}

function toCheckedOut(cart: CartRecord): CartRecord {
  if (stillOpen(cart).items.length === 0) throw new ToolError('This cart is empty. Add a product first.');
  return { ...cart, status: 'checked_out' };
}
