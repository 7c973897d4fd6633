import { Injectable } from '@nestjs/common';
import { TenantTable } from '../desk/tenant-table.js';
import type { Money } from '../money/money.js';
import { calendarDay, daysBefore, type CalendarDay } from '../time/calendar-day.js';
import { Clock } from '../time/clock.js';
import { OrderStatus } from './order-status.js';
import { totalOf, type OrderDraft, type OrderRecord } from './order.record.js';
import { ORDERS, type OrderSeed } from './orders.data.js';

/** Which orders to list. */
export interface OrderQuery {
  readonly status?: OrderStatus;
  readonly from?: CalendarDay;
  readonly to?: CalendarDay;
}

@Injectable()
export class OrdersRepository {
  private readonly table: TenantTable<OrderRecord>;

  constructor(private readonly clock: Clock) {
    const now = clock.now();
    const seeded = Object.entries(ORDERS).map(([tenant, orders]) => [tenant, orders.map((seed) => fromSeed(seed, now))] as const);
    this.table = new TenantTable<OrderRecord>(Object.fromEntries(seeded));
  }

  find(tenant: string, id: string): Promise<OrderRecord | undefined> {
    return this.table.find(tenant, id);
  }

  /** The newest first. */
  async list(tenant: string, query: OrderQuery): Promise<OrderRecord[]> {
    const orders = await this.table.list(tenant);
    return orders.filter((order) => isWanted(order, query)).toSorted(newestFirst);
  }

  async recentOf(tenant: string, customerId: string, limit: number): Promise<OrderRecord[]> {
    const orders = await this.list(tenant, {});
    return orders.filter((order) => order.customerId === customerId).slice(0, limit);
  }

  /** The total of every order of a customer since a day, cancelled ones left out. */
  async spentSince(tenant: string, customerId: string, since: CalendarDay): Promise<Money[]> {
    const orders = await this.list(tenant, { from: since });
    return orders.filter((order) => order.customerId === customerId && order.status !== OrderStatus.Cancelled).map(totalOf);
  }

  place(tenant: string, draft: OrderDraft): Promise<OrderRecord> {
    return this.table.transaction(tenant, (rows) => {
      const numbers = [...rows.keys()].map((id) => Number(id.slice(2)));
      const id = `o-${Math.max(1000, ...numbers) + 1}`;
      const placed = { ...draft, id, status: OrderStatus.Placed, placedOn: calendarDay(this.clock.now()) };
      rows.set(id, placed);
      return placed;
    });
  }

  /** Replaces an order by what `change` makes of it, in one step; undefined when there is none. */
  change(tenant: string, id: string, change: (order: OrderRecord) => OrderRecord): Promise<OrderRecord | undefined> {
    return this.table.transaction(tenant, (rows) => {
      const order = rows.get(id);
      if (!order) return undefined;
      const changed = change(order);
      rows.set(id, changed);
      return changed;
    });
  }
}

function fromSeed({ daysAgo, ...order }: OrderSeed, now: Date): OrderRecord {
  return { ...order, placedOn: daysBefore(now, daysAgo) };
}

function isWanted(order: OrderRecord, { status, from, to }: OrderQuery): boolean {
  if (status !== undefined && order.status !== status) return false;
  return (from === undefined || order.placedOn >= from) && (to === undefined || order.placedOn <= to);
}

function newestFirst(one: OrderRecord, other: OrderRecord): number {
  return other.placedOn.localeCompare(one.placedOn) || other.id.localeCompare(one.id);
}
