import { Module } from '@nestjs/common';
import { ToolLoopModule } from '@toolloop/core';
import { DeskModule } from '../desk/desk.module.js';
import { Customer } from '../desk/entities.js';
import { CustomerResolver, CustomerTools } from './customer-tools.js';

@Module({ imports: [DeskModule, ToolLoopModule.forFeature({ entities: [Customer] })], providers: [CustomerTools, CustomerResolver] })
export class CustomersModule {}
