import { Injectable } from '@nestjs/common';
import { EntityResolver, ToolEntityResolver, type EntityContext } from '@toolloop/core';
import { EntityFactory } from '../desk/entity.factory.js';
import { Order } from './order.entity.js';

/** Looks an order up before each call, so that a run that waited for a manager goes on with the order as it is by then, in whatever process. */
@Injectable()
@ToolEntityResolver(Order)
export class OrderResolver extends EntityResolver<Order> {
  constructor(private readonly entities: EntityFactory) {
    super();
  }

  override async resolve(orderId: string, { tenant }: EntityContext): Promise<Order | undefined> {
    const record = await this.entities.orders.find(tenant, orderId);
    return record && this.entities.order(tenant, record);
  }
}
