import { PrimaryKeyProp } from '@mikro-orm/core';
import { Entity, Enum, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import {
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolError,
  ToolField,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import type { ToolPreview } from '@toolloop/protocol';
import type { ResourceScope } from '@toolloop/resources';
import { gatewayOf, type MikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { Expose } from 'class-transformer';
import { calendarDay, monthsBefore, TODAY } from './clock.js';
import {
  assertInStock,
  CartContents,
  MOST_PIECES,
  OrderLine,
  type PricedQuantity,
  type ProductQuantity,
  totalOf,
  withItem,
  withoutItem,
} from './items.js';
import { Currency, Money } from './money.js';

// Entities name each other, so they share a file. One that is declared further down is named in
// `output` by a function, and its method returns a Promise of it: the compiler writes a plain
// return type into the metadata, where it would be read while this file still loads.

export enum OrderStatus {
  Placed = 'placed',
  Shipped = 'shipped',
  Cancelled = 'cancelled',
}

export enum CartStatus {
  Open = 'open',
  CheckedOut = 'checked_out',
}

/**
 * A row of a tenant. Its id means nothing without its tenant: both tenants have a c-123, and they
 * are two people.
 */
abstract class TenantRow {
  [PrimaryKeyProp]?: ['tenant', 'id'];

  @PrimaryKey({ type: 'text', hidden: true })
  tenant!: string;

  @PrimaryKey({ type: 'text' })
  @ToolField({ origin: 'application' })
  @Expose()
  id!: string;
}

/** An article of the catalog. It has no tools of its own: it is only what tools return. */
@Entity({ schema: 'desk', tableName: 'products' })
export class Product extends TenantRow {
  @Property({ type: 'text' })
  @Expose()
  name!: string;

  @Property({
    type: 'decimal',
    precision: 12,
    scale: 2,
    comment: 'With two digits, e.g. "649.00".',
  })
  @ToolField({ origin: 'application' })
  @Expose()
  price!: string;

  @Enum({ items: () => Currency })
  @ToolField({ origin: 'application' })
  @Expose()
  currency!: Currency;

  @Property({ type: 'integer' })
  @ToolField({ origin: 'application' })
  @Expose()
  inStock!: number;
}

const MONTHS = 12;

/** A customer. Its tools appear when a tool returns it. */
@Entity({ schema: 'desk', tableName: 'customers' })
@ToolProvider({ prefix: 'customer', tenantProperty: 'tenant' })
export class Customer extends TenantRow {
  @Property({ type: 'text' })
  @Expose()
  name!: string;

  /** The model may write to the customer; the browser and the audit need no address. */
  @Property({ type: 'text' })
  @Expose({ groups: ['model'] })
  email!: string;

  @Property({ type: 'text' })
  @Expose()
  city!: string;

  @Property({ type: 'date' })
  @ToolField({ origin: 'application' })
  @Expose()
  customerSince!: string;

  /** The currency in which the customer pays. */
  @Enum({ items: () => Currency })
  currency!: Currency;

  /** The words of the name, each behind a space. */
  @Property({ type: 'text', hidden: true })
  searchName!: string;

  @LlmTool({
    description:
      "This customer's average monthly spend over the last 12 months, without cancelled orders.",
    effect: 'read_only',
    output: Money,
    labels: { returns: 'trusted' },
  })
  getAverageSpend(@ToolContext() context: ToolCallContext): Promise<Money> {
    return gatewayOf(this).within(context, async (em) => {
      // Row level security adds the tenant.
      const [row] = await em.execute<{ readonly spent: string }[]>(
        'select coalesce(sum(total), 0) as spent from desk.orders where customer_id = ? and placed_on >= ? and status <> ?',
        [this.id, monthsBefore(TODAY, MONTHS), OrderStatus.Cancelled],
      );
      return Money.parse(row?.spent ?? '0', this.currency).dividedBy(MONTHS);
    });
  }

  @LlmTool({
    description: "This customer's most recent orders, the newest first.",
    effect: 'read_only',
    output: () => [Order],
    labels: { returns: 'trusted' },
  })
  getRecentOrders(
    @ToolParam('limit', { description: 'How many at most', default: 5, minimum: 1, maximum: 20 })
    limit: number,
    @ToolContext() context: ToolCallContext,
  ): Promise<Order[]> {
    const { tenant, id: customerId } = this;
    return gatewayOf(this).within(context, (em) =>
      em.find(Order, { tenant, customerId }, { orderBy: { placedOn: 'desc', id: 'desc' }, limit }),
    );
  }

  @LlmTool({
    description: 'Open a new, empty cart for this customer.',
    effect: 'state_change',
    rehearse: 'transaction',
    output: () => Cart,
    labels: { returns: 'trusted' },
  })
  openCart(@ToolContext() context: ToolCallContext): Promise<Cart> {
    return Cart.open(gatewayOf(this), context, this.id);
  }
}

/**
 * An order. Its tools appear when a tool returns it, and it is looked up again before each of their
 * calls.
 */
@Entity({ schema: 'desk', tableName: 'orders' })
@ToolProvider({ prefix: 'order', tenantProperty: 'tenant' })
export class Order extends TenantRow {
  @Property({ type: 'text' })
  @ToolField({ origin: 'application' })
  @Expose()
  customerId!: string;

  @Property({ type: 'date' })
  @ToolField({ origin: 'application' })
  @Expose()
  placedOn!: string;

  @Enum({ items: () => OrderStatus })
  @ToolField({ origin: 'application' })
  @Expose()
  status!: OrderStatus;

  @Property({ type: 'decimal', precision: 12, scale: 2 })
  @ToolField({ origin: 'application' })
  @Expose()
  total!: string;

  @Enum({ items: () => Currency })
  @ToolField({ origin: 'application' })
  @Expose()
  currency!: Currency;

  @Property({ type: 'json' })
  lines!: readonly PricedQuantity[];

  @LlmTool({
    description: 'What this order costs in total.',
    effect: 'read_only',
    output: Money,
    labels: { returns: 'trusted' },
  })
  getTotal(): Money {
    return Money.parse(this.total, this.currency);
  }

  @LlmTool({
    description: 'The articles of this order.',
    effect: 'read_only',
    output: [OrderLine],
    labels: { returns: 'trusted' },
  })
  getLines(): OrderLine[] {
    return this.lines.map((line) => new OrderLine(line, this.currency));
  }

  @LlmTool({
    description: 'The customer who placed this order.',
    effect: 'read_only',
    output: Customer,
  })
  async getCustomer(@ToolContext() context: ToolCallContext): Promise<Customer> {
    const { tenant, customerId: id } = this;
    const customer = await gatewayOf(this).within(context, (em) =>
      em.findOne(Customer, { tenant, id }),
    );
    if (!customer) throw new ToolError('The customer of this order is no longer on file.');
    return customer;
  }

  @LlmTool({
    description:
      'Cancel this order and put its articles back in stock. Shipped orders cannot be cancelled.',
    effect: 'state_change',
    rehearse: 'transaction',
    preview: 'previewCancel',
    output: () => Order,
    labels: { returns: 'trusted' },
  })
  async cancel(@ToolContext() context: ToolCallContext): Promise<Order> {
    const { tenant, id } = this;
    await gatewayOf(this).within(context, async (em) => {
      // It is decided by the order as it is now, not as it was when the model saw it.
      const order = await em.findOne(
        Order,
        { tenant, id },
        { lockMode: LockMode.PESSIMISTIC_WRITE },
      );
      if (!order) throw new ToolError(`Order ${id} is no longer on file.`);
      if (order.status === OrderStatus.Shipped)
        throw new ToolError(
          `Order ${id} has been shipped and cannot be cancelled. Offer a return instead.`,
        );
      if (order.status === OrderStatus.Cancelled)
        throw new ToolError(`Order ${id} is cancelled already.`);
      order.status = OrderStatus.Cancelled;
      for (const [product, { quantity }] of await productsOf(
        em,
        tenant,
        order.lines,
        LockMode.PESSIMISTIC_WRITE,
      ))
        product.inStock += quantity;
    });
    return Order.get(gatewayOf(this), context, id);
  }

  previewCancel(): ToolPreview {
    return {
      sentence: `Cancel order ${this.id} of ${this.total} ${this.currency}`,
      changes: [{ field: 'status', before: this.status, after: OrderStatus.Cancelled }],
    };
  }

  /** @throws {ToolError} Where the tenant has no such order. */
  static async get(
    gateway: MikroOrmGateway,
    { actor, tenant }: ResourceScope,
    id: string,
  ): Promise<Order> {
    const order = await gateway.within({ actor, tenant }, (em) =>
      em.findOne(Order, { tenant, id }),
    );
    if (!order)
      throw new ToolError(`No order has the number "${id}". List the orders with orders__read.`);
    return order;
  }
}

/**
 * Finds the products of quantities, and locks them if they are to be changed: in one order
 * everywhere, so that no two transactions wait for each other.
 *
 * @throws {ToolError} Where one is not sold.
 */
async function productsOf<Quantity extends ProductQuantity>(
  em: Pick<EntityManager, 'find'>,
  tenant: string,
  quantities: readonly Quantity[],
  lockMode: LockMode.NONE | LockMode.PESSIMISTIC_WRITE = LockMode.NONE,
): Promise<readonly (readonly [Product, Quantity])[]> {
  const ids = quantities.map(({ productId }) => productId);
  const found = await em.find(
    Product,
    { tenant, id: { $in: ids } },
    { orderBy: { id: 'asc' }, lockMode },
  );
  return quantities.map((quantity) => {
    const product = found.find(({ id }) => id === quantity.productId);
    if (!product)
      throw new ToolError(
        `No product has the id "${quantity.productId}". Find one with catalog__read.`,
      );
    return [product, quantity];
  });
}

const PRODUCT_ID = { description: 'A product id such as p-102', pattern: String.raw`^p-\d{1,9}$` };

/**
 * A cart. It is looked up again before each call of its tools, so that every holder of this cart
 * sees the same.
 */
@Entity({ schema: 'desk', tableName: 'carts' })
@ToolProvider({ prefix: 'cart', tenantProperty: 'tenant' })
export class Cart extends TenantRow {
  @Property({ type: 'text' })
  @ToolField({ origin: 'application' })
  @Expose()
  customerId!: string;

  @Enum({ items: () => CartStatus })
  status!: CartStatus;

  @Property({ type: 'json' })
  items!: readonly ProductQuantity[];

  @LlmTool({
    description: 'Put a product into this cart.',
    effect: 'state_change',
    rehearse: 'transaction',
    output: CartContents,
    labels: { returns: 'trusted' },
  })
  addItem(
    @ToolParam('productId', PRODUCT_ID) productId: string,
    @ToolParam('quantity', {
      description: 'How many',
      type: 'integer',
      default: 1,
      minimum: 1,
      maximum: MOST_PIECES,
    })
    quantity: number,
    @ToolContext() context: ToolCallContext,
  ): Promise<CartContents> {
    return this.change(context, async (cart, em) => {
      const [[product] = []] = await productsOf(em, cart.tenant, [{ productId, quantity }]);
      if (product) cart.items = withItem(cart.items, product, quantity);
    });
  }

  @LlmTool({
    description: 'Take a product out of this cart.',
    effect: 'state_change',
    rehearse: 'transaction',
    output: CartContents,
    labels: { returns: 'trusted' },
  })
  removeItem(
    @ToolParam('productId', PRODUCT_ID) productId: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<CartContents> {
    return this.change(context, (cart) => {
      cart.items = withoutItem(cart.items, productId);
    });
  }

  @LlmTool({
    description: "What is in this cart, at today's prices.",
    effect: 'read_only',
    output: CartContents,
    labels: { returns: 'trusted' },
  })
  getContents(@ToolContext() { actor, tenant }: ToolCallContext): Promise<CartContents> {
    return gatewayOf(this).within({ actor, tenant }, async (em) => {
      const cart = await em.findOneOrFail(Cart, { tenant, id: this.id });
      const { lines, currency } = await cart.draft(em);
      return new CartContents(this.id, lines, currency);
    });
  }

  @LlmTool({
    description: 'Place an order for everything in this cart.',
    effect: 'state_change',
    rehearse: 'transaction',
    output: Order,
    labels: { returns: 'trusted' },
  })
  async checkout(@ToolContext() context: ToolCallContext): Promise<Order> {
    const orderId = await gatewayOf(this).within(context, async (em) => {
      const cart = await this.locked(em);
      if (cart.items.length === 0) throw new ToolError('This cart is empty. Add a product first.');
      const draft = await cart.draft(em);
      for (const [product, { quantity }] of await productsOf(
        em,
        cart.tenant,
        cart.items,
        LockMode.PESSIMISTIC_WRITE,
      )) {
        assertInStock(product, quantity);
        product.inStock -= quantity;
      }
      cart.status = CartStatus.CheckedOut;
      const id = await nextId(em, 'orders', 'o-', FIRST_ORDER);
      const total = totalOf(draft.lines, draft.currency).amount;
      const { tenant, customerId } = cart;
      em.create(Order, {
        tenant,
        id,
        customerId,
        ...draft,
        total,
        status: OrderStatus.Placed,
        placedOn: calendarDay(TODAY),
      });
      return id;
    });
    return Order.get(gatewayOf(this), context, orderId);
  }

  /**
   * Opens a cart with products in it or empty, or none where one of them is not sold or not there.
   */
  static async open(
    gateway: MikroOrmGateway,
    context: ToolCallContext,
    customerId: string,
    wanted: readonly ProductQuantity[] = [],
  ): Promise<Cart> {
    const { actor, tenant } = context;
    const id = await gateway.within(context, async (em) => {
      const found = await em.findOne(Customer, { tenant, id: customerId });
      if (!found)
        throw new ToolError(
          `No customer has the id "${customerId}". Find one with crm__searchCustomers.`,
        );
      let items: readonly ProductQuantity[] = [];
      for (const [product, { quantity }] of await productsOf(em, tenant, wanted))
        items = withItem(items, product, quantity);
      const cart = em.create(Cart, {
        tenant,
        id: await nextId(em, 'carts', 'cart-', 1),
        customerId,
        items,
        status: CartStatus.Open,
      });
      return cart.id;
    });
    return gateway.within({ actor, tenant }, (em) => em.findOneOrFail(Cart, { tenant, id }));
  }

  private async change(
    context: ToolCallContext,
    change: (cart: Cart, em: Pick<EntityManager, 'find'>) => void | Promise<void>,
  ): Promise<CartContents> {
    await gatewayOf(this).within(context, async (em) => change(await this.locked(em), em));
    return this.getContents(context);
  }

  /** The cart, if it may still be changed. */
  private async locked(em: Pick<EntityManager, 'findOneOrFail'>): Promise<Cart> {
    const { tenant, id } = this;
    const cart = await em.findOneOrFail(
      Cart,
      { tenant, id },
      { lockMode: LockMode.PESSIMISTIC_WRITE },
    );
    if (cart.status !== CartStatus.Open)
      throw new ToolError('This cart has been checked out. Open a new one.');
    return cart;
  }

  /** The lines of an order of the cart, at today's prices. */
  private async draft(
    em: Pick<EntityManager, 'find' | 'findOneOrFail'>,
  ): Promise<{ readonly lines: readonly PricedQuantity[]; readonly currency: Currency }> {
    const { currency } = await em.findOneOrFail(Customer, {
      tenant: this.tenant,
      id: this.customerId,
    });
    const products = await productsOf(em, this.tenant, this.items);
    const lines = products.map(([{ name, price }, { productId, quantity }]) => ({
      productId,
      quantity,
      name,
      unitCents: Money.parse(price, currency).cents,
    }));
    return { lines, currency };
  }
}

const FIRST_ORDER = 1_001;

/** The next id of the tenant. Two who ask at once wait for each other. */
async function nextId(
  em: Pick<EntityManager, 'execute'>,
  table: 'orders' | 'carts',
  prefix: string,
  first: number,
): Promise<string> {
  await em.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [`desk.${table}`]);
  const [row] = await em.execute<{ readonly last: number | null }[]>(
    `select max(substr(id, ?)::int) as last from desk.${table}`,
    [prefix.length + 1],
  );
  return `${prefix}${Math.max(first - 1, row?.last ?? 0) + 1}`;
}
