import { Injectable } from '@nestjs/common';
import { LlmTool, type ToolCallContext, ToolContext, ToolError, ToolField, ToolInput, ToolProvider } from '@toolloop/core';
import { Type } from 'class-transformer';
import { ArrayMaxSize, IsArray, IsInt, IsOptional, Matches, Max, Min, ValidateNested } from 'class-validator';
import { Cart, EntityFactory } from '../desk/entities.js';
import { MOST_PIECES, withItem, type CartRecord } from '../desk/records.js';

/** An article to put into a cart. */
export class CartItem {
  @ToolField({ description: 'Such as p-102.' }) @Matches(/^p-\d{1,9}$/) productId!: string;
  @IsInt() @Min(1) @Max(MOST_PIECES) quantity!: number;
}

/** The input of `carts__openCart`. */
export class OpenCart {
  @ToolField({ description: 'Such as c-124.' }) @Matches(/^c-\d{1,9}$/) customerId!: string;

  @ToolField({ description: 'What to put into it at once.' })
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(20)
  @ValidateNested({ each: true })
  @Type(() => CartItem)
  items: CartItem[] = [];
}

/** The tools that open carts. The carts bring their own. */
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
