import { Currency } from '../money/currency.js';
import type { CustomerRecord } from './customer.record.js';

/** Who buys from the tenants. Both have a c-123, and they are two people. */
export const CUSTOMERS: Readonly<Record<string, readonly CustomerRecord[]>> = {
  acme: [
    european('c-123', 'John Smith', 'john.smith@example.com', 'Dublin', '2023-04-17'),
    european('c-124', 'Jane Doe', 'jane.doe@example.com', 'Vienna', '2022-09-02'),
    european('c-125', 'Laura Smith', 'laura.smith@example.com', 'Lyon', '2025-01-30'),
    european('c-126', 'Omar Haddad', 'omar.haddad@example.com', 'Antwerp', '2024-06-11'),
    european('c-128', 'Mary Jones', 'mary.jones@example.com', 'Bath', '2024-11-04'),
    european('c-127', 'Zoë Kamiński', 'zoe.kaminski@example.com', 'Kraków', '2026-08-25'),
  ],
  globex: [
    american('c-123', 'Priya Natarajan', 'priya@example.org', 'Austin', '2024-02-05'),
    american('c-201', 'Chen Wei', 'chen.wei@example.org', 'Seattle', '2023-11-20'),
    american('c-202', 'María García', 'maria.garcia@example.org', 'El Paso', '2025-05-14'),
  ],
};

function european(id: string, name: string, email: string, city: string, since: string): CustomerRecord {
  return { id, name, email, city, since, currency: Currency.Euro };
}

function american(id: string, name: string, email: string, city: string, since: string): CustomerRecord {
  return { id, name, email, city, since, currency: Currency.Dollar };
}
