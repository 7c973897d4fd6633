import { Module } from '@nestjs/common';
import { ToolLoopModule } from '@toolloop/core';
import { DeskModule } from '../desk/desk.module.js';
import { Cart } from '../desk/entities.js';
import { CartTools } from './cart-tools.js';

@Module({ imports: [DeskModule, ToolLoopModule.forFeature({ entities: [Cart] })], providers: [CartTools] })
export class CartsModule {}
