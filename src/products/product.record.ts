import type { Row } from '../desk/tenant-table.js';
import type { Currency } from '../money/currency.js';

/** An article as it is stored. */
export interface ProductRecord extends Row {
  readonly name: string;
  readonly priceCents: number;
  readonly currency: Currency;
  readonly inStock: number;
}

/** How many of an article. */
export interface ProductQuantity {
  readonly productId: string;
  readonly quantity: number;
}
