import { Module } from '@nestjs/common';
import { IdentityModule } from '../identity/identity.module.js';
import { Closing, RunEvents } from './run-events.js';
import { RunsController } from './runs.controller.js';
import { WaitingRunsController } from './waiting-runs.controller.js';

@Module({
  imports: [IdentityModule],
  controllers: [RunsController, WaitingRunsController],
  providers: [Closing, RunEvents],
  exports: [RunEvents],
})
export class RunsModule {}
