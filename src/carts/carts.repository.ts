import { Injectable } from '@nestjs/common';
import { TenantTable } from '../desk/tenant-table.js';
import type { ProductQuantity } from '../products/product.record.js';
import type { CartRecord } from './cart.record.js';

@Injectable()
export class CartsRepository {
  private readonly table = new TenantTable<CartRecord>();

  open(tenant: string, customerId: string, items: readonly ProductQuantity[] = []): Promise<CartRecord> {
    return this.table.transaction(tenant, (rows) => {
      const cart: CartRecord = { id: `cart-${rows.size + 1}`, customerId, items, status: 'open' };
      rows.set(cart.id, cart);
      return cart;
    });
  }

  /** Replaces a cart by what `change` makes of it, in one step. */
  change(tenant: string, id: string, change: (cart: CartRecord) => CartRecord): Promise<CartRecord> {
    return this.table.transaction(tenant, (rows) => {
      const cart = rows.get(id);
      if (!cart) throw new Error(`There is no cart ${id}.`);
      const changed = change(cart);
      rows.set(id, changed);
      return changed;
    });
  }
}
