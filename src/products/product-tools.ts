import { Injectable } from '@nestjs/common';
import { clientTool, LlmTool, tool, type ToolCallContext, ToolContext, ToolField, ToolInput, ToolProvider } from '@toolloop/core';
import { Expose, Type } from 'class-transformer';
import {
  IsBoolean,
  IsDefined,
  IsEnum,
  IsInt,
  IsNumber,
  IsOptional,
  IsString,
  Matches,
  Max,
  MaxLength,
  Min,
  ValidateNested,
} from 'class-validator';
import { Currency, Money } from '../desk/money.js';
import type { ProductRecord } from '../desk/records.js';
import { ProductsRepository } from '../desk/repositories.js';

/** An article of the catalog. It has no tools of its own: it is only what tools return. */
export class Product {
  @Expose() readonly id: string;
  @Expose() readonly name: string;
  @Expose() @Type(() => Money) readonly price: Money;
  @Expose() readonly inStock: number;

  constructor(record: ProductRecord) {
    this.id = record.id;
    this.name = record.name;
    this.price = new Money(record.priceCents, record.currency);
    this.inStock = record.inStock;
  }
}

/** The input of `catalog__searchProducts`. */
export class SearchProducts {
  @ToolField({ description: 'Words of the name; without them every product matches.' })
  @IsOptional()
  @IsString()
  @MaxLength(80)
  text?: string;

  @ToolField({ description: "In the catalog's currency." })
  @IsOptional()
  @IsNumber({ maxDecimalPlaces: 2 })
  @Min(0)
  maxPrice?: number;

  @IsOptional() @IsBoolean() inStockOnly: boolean = true;
  @IsOptional() @IsInt() @Min(1) @Max(50) limit: number = 10;
}

/** A price, as a model writes it. */
export class Price {
  @ToolField({ description: 'Decimal with up to two digits, e.g. "649.00".' })
  @Matches(/^\d{1,7}(\.\d{1,2})?$/)
  amount!: string;

  @IsEnum(Currency) currency!: Currency;
}

/** The input of `catalog__setPrice`. */
export class SetPrice {
  @ToolField({ description: 'Such as p-102.' }) @Matches(/^p-\d{1,9}$/) productId!: string;
  @IsDefined() @ValidateNested() @Type(() => Price) price!: Price;
}

/** The input that a user's device gives. */
export class Barcode {
  @ToolField({ description: 'The digits below the bars.' }) @Matches(/^\d{8,14}$/) barcode!: string;
}

/** Runs where the user is: no server sees what is on the table. */
export const scanBarcode = clientTool({
  id: 'device__scanBarcode',
  description: "Scan the barcode of a parcel with the camera of the user's device.",
  effect: 'read_only',
  output: Barcode,
  labels: { reads: 'public' },
});

const CENTS_UP_TO_2_KG = 549;
const CENTS_BEYOND = 1049;

/** Only the person at the desk knows what the parcel weighs. */
export const quotePostage = tool({
  id: 'parcels__quotePostage',
  description: 'Quote the postage of the parcel on the desk.',
  effect: 'read_only',
  reveal: 'all',
  labels: { reads: 'public', returns: 'trusted' },
  execute: async (_input, context) => {
    const schema = { type: 'integer', minimum: 1, maximum: 31_500 } as const;
    const grams = await context.ask({ key: 'grams', question: 'How many grams does the parcel weigh?', schema });
    return { grams, postageCents: Number(grams) <= 2_000 ? CENTS_UP_TO_2_KG : CENTS_BEYOND };
  },
});

/** The tools of the catalog. */
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
