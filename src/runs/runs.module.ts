import { Module } from '@nestjs/common';
import { IdentityModule } from '../identity/identity.module.js';
import { RunsController } from './runs.controller.js';

@Module({ imports: [IdentityModule], controllers: [RunsController] })
export class RunsModule {}
