import { Injectable } from '@nestjs/common';
import { LlmTool, ToolContext, ToolError, ToolInput, ToolProvider } from '@toolloop/core';
import type { ToolCallContext } from '@toolloop/core';
import { EntityFactory } from '../desk/entity.factory.js';
import { Cart } from './cart.entity.js';
import { withItem } from './cart-items.js';
import type { CartRecord } from './cart.record.js';
import { OpenCart } from './open-cart.input.js';

@Injectable()
@ToolProvider({ namespace: 'carts' })
export class CartTools {
  constructor(private readonly entities: EntityFactory) {}

  @LlmTool({
    description: 'Open a cart for a customer, with products in it or empty.',
    effect: 'state_change',
    output: Cart,
    labels: { returns: 'trusted' },
  })
  async openCart(@ToolInput() input: OpenCart, @ToolContext() context: ToolCallContext): Promise<Cart> {
    const { tenant } = context;
    const customer = await this.entities.customers.find(tenant, input.customerId);
    if (!customer) throw new ToolError(`No customer has the id "${input.customerId}". Find one with crm__searchCustomers.`);
    let items: CartRecord['items'] = [];
    for (const { productId, quantity } of input.items) {
      items = withItem(items, await this.entities.products.get(tenant, productId), quantity);
    }
    return this.entities.cart(tenant, await this.entities.carts.open(tenant, customer.id, items));
  }
}
