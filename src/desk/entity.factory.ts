import { Injectable } from '@nestjs/common';
import { Cart } from '../carts/cart.entity.js';
import type { CartRecord, CustomerRecord, OrderDraft, OrderRecord } from './records.js';
import { CartsRepository, CustomersRepository, OrdersRepository, ProductsRepository } from './repositories.js';
import { Customer } from '../customers/customer.entity.js';
import { Order } from '../orders/order.entity.js';
import { Clock } from './clock.js';

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

  /** What an order of a cart would be, at today's prices. */
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
