import { Module } from '@nestjs/common';
import { Clock, FixedClock } from './clock.js';
import { EntityFactory } from './entities.js';
import { CartsRepository, CustomersRepository, OrdersRepository, ProductsRepository } from './repositories.js';

/** Today, at the order desk. */
const TODAY = new Date('2026-11-16T09:00:00Z');

/** The stored data of the order desk and the entities made of it, which its features share. */
@Module({
  providers: [
    { provide: Clock, useValue: new FixedClock(TODAY) },
    CustomersRepository,
    ProductsRepository,
    OrdersRepository,
    CartsRepository,
    EntityFactory,
  ],
  exports: [Clock, CustomersRepository, ProductsRepository, OrdersRepository, CartsRepository, EntityFactory],
})
export class DeskModule {}
