import { LlmTool, type ToolCallContext, ToolContext, ToolField, ToolInput } from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { MikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { IsInt, IsOptional, IsString, Matches, Max, MaxLength, Min } from 'class-validator';
import { Customer } from '../desk/entities.js';
import { wordsOf } from '../desk/words.js';

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
@ToolResource(Customer, { namespace: 'crm', actions: ['read'] })
export class CustomerTools {
  constructor(private readonly gateway: MikroOrmGateway) {}

  /**
   * Every word of the query begins a word of the name, without regard to case and accents, which no
   * filter of `crm__read` can say: "jo smith" finds "John Smith".
   */
  @LlmTool({ description: 'Find customers by name.', effect: 'read_only', output: [Customer] })
  searchCustomers(
    @ToolInput() { name, limit }: SearchCustomers,
    @ToolContext() context: ToolCallContext,
  ): Promise<Customer[]> {
    const words = wordsOf(name).map((word) => ({ searchName: { $like: `% ${word}%` } }));
    const where = { $and: [{ tenant: context.tenant }, ...words] };
    return this.gateway.within(context, (em) =>
      em.find(Customer, where, { orderBy: { id: 'asc' }, limit }),
    );
  }
}
