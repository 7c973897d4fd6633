import { Test, type TestingModule } from '@nestjs/testing';
import { type ToolCallContext, ToolLoopModule } from '@toolloop/core';
import { MikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { ScriptedModel } from '@toolloop/testing';
import { DeskModule } from '../../src/desk/desk.module.js';
import { type Cart, Customer, Order, Product } from '../../src/desk/entities.js';
import { MemoryStorageModule } from './memory-storage.module.js';

const open = new Set<TestingModule>();

/** Closes every desk that was opened. */
export async function closeOrderDesks(): Promise<void> {
  await Promise.all([...open].map((module) => module.close()));
  open.clear();
}

/** The data of the demo, without its tools and without a model. */
export async function orderDesk(): Promise<OrderDesk> {
  const loop = ToolLoopModule.forRoot({ model: new ScriptedModel([]) });
  const module = await Test.createTestingModule({
    imports: [MemoryStorageModule, loop, DeskModule],
  }).compile();
  open.add(module);
  await module.init();
  return new OrderDesk(module.get(MikroOrmGateway));
}

export function callOf(tenant: string): ToolCallContext {
  return { tenant, actor: { id: 'alice' } } as ToolCallContext;
}

export class OrderDesk {
  constructor(readonly gateway: MikroOrmGateway) {}

  customer(tenant: string, id: string): Promise<Customer> {
    return this.gateway.within(callOf(tenant), (em) => em.findOneOrFail(Customer, { tenant, id }));
  }

  product(tenant: string, id: string): Promise<Product> {
    return this.gateway.within(callOf(tenant), (em) => em.findOneOrFail(Product, { tenant, id }));
  }

  order(tenant: string, id: string): Promise<Order> {
    return Order.get(this.gateway, callOf(tenant), id);
  }

  async openCart(): Promise<Cart> {
    return (await this.customer('acme', 'c-124')).openCart(callOf('acme'));
  }
}
