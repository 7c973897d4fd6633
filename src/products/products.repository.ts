import { Injectable } from '@nestjs/common';
import { ToolError } from '@toolloop/core';
import { matchesWords } from '../desk/name-match.js';
import { TenantTable } from '../desk/tenant-table.js';
import type { Money } from '../money/money.js';
import type { ProductQuantity, ProductRecord } from './product.record.js';
import { PRODUCTS } from './products.data.js';

/** What to look for in a catalog. */
export interface ProductQuery {
  readonly text?: string;
  readonly maxPriceCents?: number;
  readonly inStockOnly: boolean;
  readonly limit: number;
}

@Injectable()
export class ProductsRepository {
  private readonly table = new TenantTable<ProductRecord>(PRODUCTS);

  async search(tenant: string, query: ProductQuery): Promise<ProductRecord[]> {
    const products = await this.table.list(tenant);
    return products.filter((product) => isWanted(product, query)).slice(0, query.limit);
  }

  async get(tenant: string, id: string): Promise<ProductRecord> {
    return required(await this.table.find(tenant, id), id);
  }

  setPrice(tenant: string, id: string, price: Money): Promise<ProductRecord> {
    return this.table.transaction(tenant, (rows) => {
      const product = required(rows.get(id), id);
      if (product.currency !== price.currency) throw new ToolError(`Prices of this catalog are in ${product.currency}.`);
      const repriced = { ...product, priceCents: price.cents };
      rows.set(id, repriced);
      return repriced;
    });
  }

  /** Takes everything out of stock, or nothing. */
  take(tenant: string, quantities: readonly ProductQuantity[]): Promise<void> {
    return this.table.transaction(tenant, (rows) => {
      for (const { productId, quantity } of quantities) {
        const product = required(rows.get(productId), productId);
        if (product.inStock < quantity) throw new ToolError(`Only ${product.inStock} of ${productId} (${product.name}) are in stock.`);
        rows.set(productId, { ...product, inStock: product.inStock - quantity });
      }
    });
  }

  putBack(tenant: string, quantities: readonly ProductQuantity[]): Promise<void> {
    return this.table.transaction(tenant, (rows) => {
      for (const { productId, quantity } of quantities) {
        const product = required(rows.get(productId), productId);
        rows.set(productId, { ...product, inStock: product.inStock + quantity });
      }
    });
  }
}

function isWanted(product: ProductRecord, query: ProductQuery): boolean {
  if (query.inStockOnly && product.inStock === 0) return false;
  if (query.maxPriceCents !== undefined && product.priceCents > query.maxPriceCents) return false;
  return query.text === undefined || matchesWords(product.name, query.text);
}

function required(product: ProductRecord | undefined, id: string): ProductRecord {
  if (!product) throw new ToolError(`No product has the id "${id}". Find one with catalog__searchProducts.`);
  return product;
}
