import { Injectable } from '@nestjs/common';
import {
  type EntityContext,
  EntityResolver,
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolEntityResolver,
  ToolField,
  ToolInput,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { IsInt, IsOptional, IsString, Matches, Max, MaxLength, Min } from 'class-validator';
import { Customer, EntityFactory } from '../desk/entities.js';
import { CustomersRepository } from '../desk/repositories.js';

/** The input of `crm__searchCustomers`. */
export class SearchCustomers {
  @ToolField({ description: 'One or more words of the name.' })
  @IsString()
  @Matches(/\S/)
  @MaxLength(80)
  name!: string;

  @IsOptional() @IsInt() @Min(1) @Max(25) limit: number = 5;
}

/** The tools that find customers. The customers bring their own. */
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

/** Looks a customer up before each call, so that no run works on with one who has been deleted meanwhile. */
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
