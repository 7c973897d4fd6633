import { Injectable } from '@nestjs/common';
import { LlmTool, ToolContext, ToolInput, ToolParam, ToolProvider } from '@toolloop/core';
import type { ToolCallContext } from '@toolloop/core';
import { EntityFactory } from '../desk/entity.factory.js';
import { Customer } from './customer.entity.js';
import { CustomersRepository } from './customers.repository.js';
import { SearchCustomers } from './search-customers.input.js';

@Injectable()
@ToolProvider({ namespace: 'crm' })
export class CustomerTools {
  constructor(
    private readonly customers: CustomersRepository,
    private readonly entities: EntityFactory,
  ) {}

  @LlmTool({ description: 'Find customers by name.', effect: 'read_only', output: [Customer] })
  async searchCustomers(@ToolInput() input: SearchCustomers, @ToolContext() context: ToolCallContext): Promise<Customer[]> {
    const records = await this.customers.search(context.tenant, input.name, input.limit);
    return records.map((record) => this.entities.customer(context.tenant, record));
  }

  @LlmTool({
    description: 'Get the customer with an id, or null when there is none.',
    effect: 'read_only',
    output: { type: Customer, nullable: true },
  })
  async getCustomer(
    @ToolParam('customerId', { description: 'A customer id such as c-124', pattern: String.raw`^c-\d{1,9}$` }) customerId: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<Customer | null> {
    const record = await this.customers.find(context.tenant, customerId);
    return record ? this.entities.customer(context.tenant, record) : null;
  }
}
