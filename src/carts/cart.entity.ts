import { LlmTool, ToolError, ToolParam, ToolProvider } from '@toolloop/core';
import { Expose } from 'class-transformer';
import type { EntityFactory } from '../desk/entity.factory.js';
// oxlint-disable-next-line import/no-cycle -- see customer.entity.ts
import { Order } from '../orders/order.entity.js';
import { CartContents } from '../desk/order-lines.js';
import { MOST_PIECES, stillOpen, withItem, withoutItem, type CartRecord } from '../desk/records.js';

const PRODUCT_ID = { description: 'A product id such as p-102', pattern: String.raw`^p-\d{1,9}$` };

/** A cart. What is in it lives in the repository, so that every holder of this cart sees the same. */
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
    output: () => Order,
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
