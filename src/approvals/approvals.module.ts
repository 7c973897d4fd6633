import { Module } from '@nestjs/common';
import { IdentityModule } from '../identity/identity.module.js';
import { ApprovalsController } from './approvals.controller.js';

@Module({ imports: [IdentityModule], controllers: [ApprovalsController] })
export class ApprovalsModule {}
