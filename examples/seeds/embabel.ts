/**
 * Entities bring their tools: a search returns a customer, and the model can then call what that
 * one customer can do; a cart keeps its state between the calls of one answer.
 *
 * `npm run example -- embabel`
 */
import { Injectable, Module } from '@nestjs/common';
import {
  LlmTool,
  type LoopResult,
  ToolInput,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { Expose, Type } from 'class-transformer';
import { IsInt, IsString, Min } from 'class-validator';
import { print, runIfMain, withApplication } from '../run.js';

class Money {
  @Expose() readonly amount: number;
  @Expose() readonly currency = 'EUR';

  constructor(amount: number) {
    this.amount = amount;
  }
}

class Order {
  @Expose() readonly id: string;
  @Expose() readonly total: number;

  constructor(id: string, total: number) {
    this.id = id;
    this.total = total;
  }
}

@Injectable()
class Orders {
  private readonly of = new Map([['c-123', [new Order('o-1', 90), new Order('o-2', 110)]]]);

  list(customerId: string): readonly Order[] {
    return this.of.get(customerId) ?? [];
  }
}

@ToolProvider({ prefix: 'customer' })
class Customer {
  @Expose() readonly id: string;
  @Expose() readonly name: string;

  constructor(
    id: string,
    name: string,
    private readonly orders: Orders,
  ) {
    this.id = id;
    this.name = name;
  }

  @LlmTool({
    description: "This customer's average spend per order.",
    effect: 'read_only',
    output: Money,
  })
  getAverageSpend(): Money {
    const totals = this.orders.list(this.id).map(({ total }) => total);
    return new Money(totals.reduce((sum, total) => sum + total, 0) / Math.max(1, totals.length));
  }

  @LlmTool({
    description: "This customer's most recent orders.",
    effect: 'read_only',
    output: [Order],
  })
  getRecentOrders(
    @ToolParam('limit', { description: 'How many', default: 10, minimum: 1, maximum: 50 })
    limit: number,
  ): Order[] {
    return this.orders.list(this.id).slice(0, limit);
  }
}

class CartItem {
  @Expose() @IsString() readonly productId!: string;
  @Expose() @IsInt() @Min(1) @Type(() => Number) readonly quantity!: number;
}

class CartUpdate {
  @Expose() readonly success = true;
  @Expose() readonly itemCount: number;

  constructor(itemCount: number) {
    this.itemCount = itemCount;
  }
}

@ToolProvider({ prefix: 'cart' })
class ShoppingCart {
  @Expose() readonly id = 'k-1';
  private readonly items: CartItem[] = [];

  @LlmTool({ description: 'Add an item to the cart.', effect: 'state_change', output: CartUpdate })
  addItem(@ToolInput() item: CartItem): CartUpdate {
    this.items.push(item);
    return new CartUpdate(this.items.length);
  }

  @LlmTool({
    description: 'Get the contents of the cart.',
    effect: 'read_only',
    output: [CartItem],
  })
  getContents(): CartItem[] {
    return [...this.items];
  }
}

@Injectable()
@ToolProvider({ namespace: 'shop' })
class CustomerSearchTools {
  constructor(private readonly orders: Orders) {}

  @LlmTool({
    description: 'Find a customer by name.',
    effect: 'read_only',
    output: { type: Customer, nullable: true },
  })
  searchCustomer(@ToolParam('name', { description: 'Its name.' }) name: string): Customer | null {
    return name === 'John Smith' ? new Customer('c-123', name, this.orders) : null;
  }

  @LlmTool({ description: 'Open a new cart.', effect: 'state_change', output: ShoppingCart })
  openCart(): ShoppingCart {
    return new ShoppingCart();
  }
}

/**
 * What a model would answer: it finds the customer, then calls a tool that was not there before.
 */
const model = new ScriptedModel([
  calls(call('shop__searchCustomer', { name: 'John Smith' })),
  calls(call('customer_c-123_getAverageSpend')),
  calls(call('shop__openCart')),
  calls(call('cart_k-1_addItem', { productId: 'p-7', quantity: 2 }), call('cart_k-1_getContents')),
  text('John Smith spends 100 EUR on average, and two of p-7 are in the cart.'),
]);

@Module({
  imports: [
    ToolLoopModule.forRoot({
      model,
      policy: { allow: ['shop__*', 'customer_*_*', 'cart_*_*'], flow: 'off' },
    }),
  ],
  providers: [Orders, CustomerSearchTools],
})
class ShopModule {}

/** Asks for a customer's average spend, and fills a cart. */
export async function embabel(): Promise<LoopResult> {
  return withApplication(ShopModule, async (app) => {
    const loop: ToolLoopService = app.get(ToolLoopService);
    return loop.run({
      prompt: "What's John Smith's average spend? Then put two of p-7 into a cart.",
      actor: { id: 'ada' },
      tenant: 'acme',
    });
  });
}

await runIfMain(import.meta.url, async () => {
  const { text: answer, toolCalls, injectedTools } = await embabel();
  print('Tools that came with their entities:', injectedTools.map(({ id }) => id).join(', '));
  for (const { id, args, result } of toolCalls) print(id, args, '→', result);
  print(answer);
});
