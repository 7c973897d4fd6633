import { CartsRepository, CustomersRepository, OrdersRepository, ProductsRepository } from '../../src/desk/repositories.js';
import { EntityFactory, type Customer, type Order } from '../../src/desk/entities.js';
import { FixedClock } from '../../src/desk/clock.js';

/** The domain of the demo without Nest and without a model. */
export function orderDesk(today = '2026-11-16T09:00:00Z'): EntityFactory {
  const clock = new FixedClock(new Date(today));
  return new EntityFactory(new CustomersRepository(), new ProductsRepository(), new OrdersRepository(clock), new CartsRepository(), clock);
}

export async function customerOf(desk: EntityFactory, tenant: string, id: string): Promise<Customer> {
  const record = await desk.customers.find(tenant, id);
  if (!record) throw new Error(`${tenant} has no customer ${id}.`);
  return desk.customer(tenant, record);
}

export async function orderOf(desk: EntityFactory, tenant: string, id: string): Promise<Order> {
  const record = await desk.orders.find(tenant, id);
  if (!record) throw new Error(`${tenant} has no order ${id}.`);
  return desk.order(tenant, record);
}
