import { Module } from '@nestjs/common';
import { IdentityModule } from '../identity/identity.module.js';
import { UsageController } from './usage.controller.js';

@Module({ imports: [IdentityModule], controllers: [UsageController] })
export class UsageModule {}
