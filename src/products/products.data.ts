import { Currency } from '../money/currency.js';
import type { ProductRecord } from './product.record.js';

/** What the tenants sell. Both number their articles from p-100: an id means nothing without its tenant. */
export const PRODUCTS: Readonly<Record<string, readonly ProductRecord[]>> = {
  acme: [
    euros('p-100', 'Walnut desk', 649_00, 6),
    euros('p-101', 'Oak desk', 529_00, 11),
    euros('p-102', 'Task chair', 289_50, 24),
    euros('p-103', 'Monitor arm', 119_90, 40),
    euros('p-104', 'Desk lamp', 59_95, 3),
    euros('p-105', 'Filing cabinet', 175_00, 0),
    euros('p-106', 'Cable tray', 24_50, 120),
    euros('p-107', 'Standing mat', 69_90, 17),
  ],
  globex: [
    dollars('p-100', 'Bench vise', 139_00, 9),
    dollars('p-101', 'Torque wrench', 89_90, 30),
    dollars('p-102', 'Workbench', 420_00, 4),
    dollars('p-103', 'Safety goggles', 12_75, 200),
    dollars('p-104', 'Desk lamp', 44_00, 0),
  ],
};

function euros(id: string, name: string, priceCents: number, inStock: number): ProductRecord {
  return { id, name, priceCents, currency: Currency.Euro, inStock };
}

function dollars(id: string, name: string, priceCents: number, inStock: number): ProductRecord {
  return { id, name, priceCents, currency: Currency.Dollar, inStock };
}
