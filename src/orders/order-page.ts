import { Expose, Type } from 'class-transformer';
import { Order } from './order.entity.js';

/** Some of the orders there are. The orders in it bring their tools, as if they had been returned alone. */
export class OrderPage {
  @Expose() readonly total: number;
  @Expose() readonly page: number;
  @Expose() readonly pages: number;
  @Expose() @Type(() => Order) readonly orders: readonly Order[];

  constructor(all: readonly Order[], { page, pageSize }: { readonly page: number; readonly pageSize: number }) {
    this.total = all.length;
    this.page = page;
    this.pages = Math.ceil(all.length / pageSize);
    this.orders = all.slice((page - 1) * pageSize, page * pageSize);
  }
}
