import { Module, type MiddlewareConsumer, type NestModule } from '@nestjs/common';
import { LanguageModel, ToolLoopModule } from '@toolloop/core';
import { CartsModule } from './carts/carts.module.js';
import { ChatModule } from './chat/chat.module.js';
import { CustomersModule } from './customers/customers.module.js';
import { DeskModule } from './desk/desk.module.js';
import { HealthModule } from './health/health.module.js';
import { HostMiddleware } from './http/host.middleware.js';
import { User } from './identity/user.js';
import { ModelModule } from './model/model.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { DESK_POLICY } from './policy/desk.policies.js';
import { ProductsModule } from './products/products.module.js';
import { SettingsModule } from './settings.module.js';
import { calendarDay } from './time/calendar-day.js';
import { Clock } from './time/clock.js';

const INSTRUCTIONS = [
  'You help the staff of an order desk. Answer from what the tools return, never from memory, and say so when they return nothing.',
  'Find a customer or an order first: its own tools appear then. Ask back when several customers match a name.',
].join(' ');

/** A page of ten orders brings 40 tools. */
const MOST_INJECTED = 64;

/** The order desk: its features, the loop, and the routes to it. */
@Module({
  imports: [
    SettingsModule,
    ToolLoopModule.forRootAsync({
      imports: [ModelModule, DeskModule],
      inject: [LanguageModel, Clock],
      useFactory: (model: LanguageModel, clock: Clock) => ({
        model,
        instructions: `${INSTRUCTIONS} Today is ${calendarDay(clock.now())}.`,
        policy: DESK_POLICY,
        limits: { injectedTools: MOST_INJECTED },
        actorClass: User,
      }),
    }),
    ModelModule,
    CustomersModule,
    ProductsModule,
    OrdersModule,
    CartsModule,
    ChatModule,
    HealthModule,
  ],
})
export class AppModule implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    consumer.apply(HostMiddleware).forRoutes('{*path}');
  }
}
