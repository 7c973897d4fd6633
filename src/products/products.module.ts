import { Module } from '@nestjs/common';
import { DeskModule } from '../desk/desk.module.js';
import { ProductTools } from './product-tools.js';

@Module({ imports: [DeskModule], providers: [ProductTools] })
export class ProductsModule {}
