import { LlmTool, type ToolCallContext, ToolContext, ToolField, ToolInput } from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { MikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { Type } from 'class-transformer';
import {
  ArrayMaxSize,
  IsArray,
  IsInt,
  IsOptional,
  Matches,
  Max,
  Min,
  ValidateNested,
} from 'class-validator';
import { Cart } from '../desk/entities.js';
import { MOST_PIECES } from '../desk/items.js';

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
@ToolResource(Cart, { namespace: 'carts' })
export class CartTools {
  constructor(private readonly gateway: MikroOrmGateway) {}

  @LlmTool({
    description: 'Open a cart for a customer, with products in it or empty.',
    effect: 'state_change',
    rehearse: 'transaction',
    output: Cart,
    labels: { returns: 'trusted' },
  })
  openCart(
    @ToolInput() { customerId, items }: OpenCart,
    @ToolContext() context: ToolCallContext,
  ): Promise<Cart> {
    return Cart.open(this.gateway, context, customerId, items);
  }
}
