import { Injectable } from '@nestjs/common';
import { EntityResolver, ToolEntityResolver, type EntityContext } from '@toolloop/core';
import { EntityFactory } from '../desk/entity.factory.js';
import { Customer } from './customer.entity.js';

/** Looks a customer up before each call, so that no run goes on with one who has been deleted meanwhile. */
@Injectable()
@ToolEntityResolver(Customer)
export class CustomerResolver extends EntityResolver<Customer> {
  constructor(private readonly entities: EntityFactory) {
    super();
  }

  override async resolve(customerId: string, { tenant }: EntityContext): Promise<Customer | undefined> {
    const record = await this.entities.customers.find(tenant, customerId);
    return record && this.entities.customer(tenant, record);
  }
}
