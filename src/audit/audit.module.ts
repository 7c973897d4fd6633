import { Module } from '@nestjs/common';
import { IdentityModule } from '../identity/identity.module.js';
import { AuditController } from './audit.controller.js';

@Module({ imports: [IdentityModule], controllers: [AuditController] })
export class AuditModule {}
