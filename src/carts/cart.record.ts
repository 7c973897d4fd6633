import type { Row } from '../desk/tenant-table.js';
import type { ProductQuantity } from '../products/product.record.js';

/** A cart as it is stored. */
export interface CartRecord extends Row {
  readonly customerId: string;
  readonly items: readonly ProductQuantity[];
  readonly status: 'open' | 'checked_out';
}
