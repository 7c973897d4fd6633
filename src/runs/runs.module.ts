import { Module } from '@nestjs/common';
import { IdentityModule } from '../identity/identity.module.js';
import { RunEvents } from './run-events.js';
import { RunsController } from './runs.controller.js';

@Module({
  imports: [IdentityModule],
  controllers: [RunsController],
  providers: [RunEvents],
  exports: [RunEvents],
})
export class RunsModule {}
