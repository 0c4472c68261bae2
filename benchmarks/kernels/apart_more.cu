// Stores that fill sectors in part, within L2 and beyond it, after one like it (warm) and after reads of 512 MiB (cold).
//   nvcc -O3 -arch=sm_90 --extended-lambda -std=c++17 -o apart_more apart_more.cu && ./apart_more > apart_more.jsonl
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <algorithm>
#define K extern "C" __global__ void
K strided(float* y, int n, int s){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) y[(long long)i*s]=i; }
K strided2(float2* y, int n, int s){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) y[(long long)i*s]=make_float2(i,i); }
K strided4(float4* y, int n, int s){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) y[(long long)i*s]=make_float4(i,i,i,i); }
// rows of `columns` words: a warp stores 8 rows of 4 words, then those beside them, as fragments of products are
K fragments(float* y, int columns, int n){ int w=(blockIdx.x*blockDim.x+threadIdx.x)/32, lane=threadIdx.x%32;
 int across=columns/32; int r=w/across*8+lane/4, c=w%across*32+lane%4; float* at=y+(long long)r*columns+c;
 #pragma unroll
 for(int k=0;k<8;k++) at[4*k]=w+k; }
K fragments2(float2* y, int columns, int n){ int w=(blockIdx.x*blockDim.x+threadIdx.x)/32, lane=threadIdx.x%32;
 int across=columns/32; int r=w/across*8+lane/4, c=w%across*32+lane%4; float2* at=y+(long long)r*columns+c;
 #pragma unroll
 for(int k=0;k<8;k++) at[4*k]=make_float2(w,k); }
K scat(const int* idx, float* y, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) y[idx[i]]=i; }
K scat8(const int* idx, float* y, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) y[idx[i/8]/8*8+i%8]=i; }
K red(const int* idx, float* y, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) atomicAdd(y+idx[i],1.f); }
K readall(const float4* x, float* y, size_t n){ float s=0; for(size_t i=blockIdx.x*(size_t)blockDim.x+threadIdx.x;i<n;i+=(size_t)gridDim.x*blockDim.x){ float4 v=x[i]; s+=v.x+v.y+v.z+v.w; } if(s==12345.f) y[0]=s; }
K fill(int* idx, int n, int m){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n){ unsigned long long z=(i+1)*0x9E3779B97F4A7C15ull; z=(z^(z>>30))*0xBF58476D1CE4E5B9ull; z=(z^(z>>27))*0x94D049BB133111EBull; z^=z>>31; idx[i]=(int)(z%(unsigned)m);} }
#define CHECK(call) do { cudaError_t e=(call); if(e){ fprintf(stderr,"%s: %s\n",#call,cudaGetErrorString(e)); exit(1);} } while(0)
float *x,*y; int* idx; cudaEvent_t a,b; size_t SWEEP=512u<<20;
template<class F> float timed(F f, bool cold){ std::vector<float> t; for(int k=0;k<14;k++){ if(cold) readall<<<1056,256>>>((float4*)x,y,SWEEP/16); CHECK(cudaEventRecord(a)); f(); CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b)); CHECK(cudaGetLastError()); float ms; CHECK(cudaEventElapsedTime(&ms,a,b)); if(k>3) t.push_back(ms);} std::sort(t.begin(),t.end()); return t[t.size()/2]; }
int main(){
 CHECK(cudaMalloc(&x,SWEEP)); CHECK(cudaMalloc(&y,2ull<<30)); CHECK(cudaMalloc(&idx,64u<<20)); CHECK(cudaMemset(x,0,SWEEP)); CHECK(cudaMemset(y,0,2ull<<30)); cudaEventCreate(&a); cudaEventCreate(&b);
 for(int mb: {8,16,128,512}) for(int s: {1,2,4,8,16,32,64}){ int n=(size_t)mb*1048576/4/s; if(n<65536) continue;
  float w=timed([&]{ strided<<<n/256,256>>>(y,n,s); },false), c=timed([&]{ strided<<<n/256,256>>>(y,n,s); },true);
  printf("{\"kernel\":\"strided\",\"bytes\":4,\"n\":%d,\"step\":%d,\"span_mb\":%d,\"warm_ms\":%.6f,\"cold_ms\":%.6f}\n",n,s,mb,w,c); fflush(stdout);
  if(s<=32){ n/=2; float w2=timed([&]{ strided2<<<n/256,256>>>((float2*)y,n,s); },false), c2=timed([&]{ strided2<<<n/256,256>>>((float2*)y,n,s); },true);
  printf("{\"kernel\":\"strided\",\"bytes\":8,\"n\":%d,\"step\":%d,\"span_mb\":%d,\"warm_ms\":%.6f,\"cold_ms\":%.6f}\n",n,s,mb,w2,c2); 
  n/=2; float w4=timed([&]{ strided4<<<n/256,256>>>((float4*)y,n,s); },false), c4=timed([&]{ strided4<<<n/256,256>>>((float4*)y,n,s); },true);
  printf("{\"kernel\":\"strided\",\"bytes\":16,\"n\":%d,\"step\":%d,\"span_mb\":%d,\"warm_ms\":%.6f,\"cold_ms\":%.6f}\n",n,s,mb,w4,c4); fflush(stdout);} }
 for(int mb: {8,16,64,256}) for(int col: {2048,4096}){ size_t words=(size_t)mb<<18; int warps=words/256; 
  float w=timed([&]{ fragments<<<warps/8,256>>>(y,col,0); },false), c=timed([&]{ fragments<<<warps/8,256>>>(y,col,0); },true);
  float w2=timed([&]{ fragments2<<<warps/16,256>>>((float2*)y,col/2,0); },false), c2=timed([&]{ fragments2<<<warps/16,256>>>((float2*)y,col/2,0); },true);
  printf("{\"kernel\":\"fragments\",\"span_mb\":%d,\"columns\":%d,\"warm_ms\":%.6f,\"cold_ms\":%.6f,\"warm_8_ms\":%.6f,\"cold_8_ms\":%.6f}\n",mb,col,w,c,w2,c2); fflush(stdout);}
 int n=1<<22;
 for(int lg: {18,20,21,22,23,24,26,28}){ int m=1<<lg; fill<<<n/256,256>>>(idx,n,m);
  float w=timed([&]{ scat<<<n/256,256>>>(idx,y,n); },false), c=timed([&]{ scat<<<n/256,256>>>(idx,y,n); },true), w8=timed([&]{ scat8<<<n/256,256>>>(idx,y,n); },false), c8=timed([&]{ scat8<<<n/256,256>>>(idx,y,n); },true), r=timed([&]{ red<<<n/256,256>>>(idx,y,n); },false), rc=timed([&]{ red<<<n/256,256>>>(idx,y,n); },true);
  printf("{\"kernel\":\"scatter\",\"n\":%d,\"words\":%d,\"warm_ms\":%.6f,\"cold_ms\":%.6f,\"sectors_warm_ms\":%.6f,\"sectors_cold_ms\":%.6f,\"atomics_warm_ms\":%.6f,\"atomics_cold_ms\":%.6f}\n",n,m,w,c,w8,c8,r,rc); fflush(stdout);}
 return 0; }
