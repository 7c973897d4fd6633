import { Injectable } from '@nestjs/common';
import { matchesWords } from '../desk/name-match.js';
import { TenantTable } from '../desk/tenant-table.js';
import type { CustomerRecord } from './customer.record.js';
import { CUSTOMERS } from './customers.data.js';

@Injectable()
export class CustomersRepository {
  private readonly table = new TenantTable<CustomerRecord>(CUSTOMERS);

  find(tenant: string, id: string): Promise<CustomerRecord | undefined> {
    return this.table.find(tenant, id);
  }

  async search(tenant: string, name: string, limit: number): Promise<CustomerRecord[]> {
    const customers = await this.table.list(tenant);
    return customers.filter((customer) => matchesWords(customer.name, name)).slice(0, limit);
  }
}
