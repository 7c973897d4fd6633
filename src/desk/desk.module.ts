import { Module } from '@nestjs/common';
import { CartsRepository, CustomersRepository, OrdersRepository, ProductsRepository } from './repositories.js';
import { Clock, FixedClock } from './clock.js';
import { EntityFactory } from './entities.js';

/** The day it is at the order desk. */
const TODAY = new Date('2026-11-16T09:00:00Z');

/** What the features of the order desk share: their stored data and the entities made of it. */
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
