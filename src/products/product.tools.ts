import { Injectable } from '@nestjs/common';
import { LlmTool, ToolContext, ToolInput, ToolProvider } from '@toolloop/core';
import type { ToolCallContext } from '@toolloop/core';
import { Money } from '../money/money.js';
import { Product } from './product.js';
import { ProductsRepository } from './products.repository.js';
import { SearchProducts } from './search-products.input.js';
import { SetPrice } from './set-price.input.js';

@Injectable()
@ToolProvider({ namespace: 'catalog' })
export class ProductTools {
  constructor(private readonly products: ProductsRepository) {}

  @LlmTool({
    description: 'Search the products we sell by name, price and stock.',
    effect: 'read_only',
    output: [Product],
    labels: { reads: 'public', returns: 'trusted' },
  })
  async searchProducts(@ToolInput() input: SearchProducts, @ToolContext() context: ToolCallContext): Promise<Product[]> {
    const { maxPrice, ...query } = input;
    const cents = maxPrice === undefined ? {} : { maxPriceCents: Math.round(maxPrice * 100) };
    const records = await this.products.search(context.tenant, { ...query, ...cents });
    return records.map((record) => new Product(record));
  }

  @LlmTool({
    description: 'Change the price of a product. Orders already placed keep theirs.',
    effect: 'state_change',
    output: Product,
    labels: { returns: 'trusted' },
  })
  async setPrice(@ToolInput() input: SetPrice, @ToolContext() context: ToolCallContext): Promise<Product> {
    const price = Money.parse(input.price.amount, input.price.currency);
    return new Product(await this.products.setPrice(context.tenant, input.productId, price));
  }
}
